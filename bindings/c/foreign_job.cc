// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/foreign_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "lib/process_facts.h"

namespace rondel::c {
namespace {

bool contradictory(const std::vector<Claim>& claims) {
  return std::any_of(claims.begin(), claims.end(), [&claims](const Claim& one) {
    return std::any_of(claims.begin(), claims.end(),
                       [&one](const Claim& other) { return one.contradicts(other); });
  });
}

/// Through how many processes, beginning with this one, the variables of a claim came unchanged: the next one
/// upwards is where its starter set them, or can not be read.
std::size_t age_of(const Claim& claim, const Lookup& lookup, const std::vector<std::string>& ancestors) {
  const auto unchanged = [&claim, &lookup](const std::string& environment) {
    const auto same = [&lookup, &environment](const char* name) {
      return value_of(lookup, name) == value_in(environment, name).value_or("");
    };
    return same(claim.starter->rank) && same(claim.starter->size) && same(claim.starter->mark);
  };
  const auto origin = std::find_if_not(ancestors.begin(), ancestors.end(), unchanged);
  return static_cast<std::size_t>(origin - ancestors.begin());
}

/// The claims of the starter that is nearest to this process: one starter may set variables of several kinds.
std::vector<Claim> innermost(const std::vector<Claim>& claims, const Lookup& lookup,
                             const std::vector<std::string>& ancestors) {
  std::vector<Claim> nearest;
  std::size_t least_age = ancestors.size();
  for (const Claim& claim : claims) {
    const std::size_t age = age_of(claim, lookup, ancestors);
    if (age < least_age) nearest.clear();
    if (age <= least_age) nearest.push_back(claim);
    least_age = std::min(least_age, age);
  }
  return nearest;
}

/// PMIx' word beside mpirun's says nothing more.
bool worth_words(const Claim& claim, const std::vector<Claim>& all) {
  return claim.starter != &starters::kPmix || std::none_of(all.begin(), all.end(), [](const Claim& other) {
           return other.starter == &starters::kOpenMpi;
         });
}

Status undecided(const std::vector<Claim>& claims) {
  std::string texts;
  std::string others;
  for (const Claim& claim : claims) {
    if (worth_words(claim, claims)) texts += (texts.empty() ? "" : " and ") + claim.text();
    if (&claim != &claims.front()) others += (others.empty() ? "" : ", ") + claim.names();
  }
  return Status(
      Code::refused,
      fmt::format("{} contradict, and it can not be told which of them started this process as a "
                  "rank",
                  texts),
      fmt::format("unset the variables that do not count (for a rank of {}: {}), or set RONDEL_RANK "
                  "and RONDEL_SIZE, which always count",
                  claims.front().starter->name, others));
}

Status only_half(const Claim& claim) {
  const bool have_rank = claim.rank.has_value();
  return Status(
      claim.starter == &starters::kPmix ? Code::unsupported : Code::invalid_argument,
      fmt::format("{} but there is no {}, so that this process can not tell how many ranks there are",
                  claim.text(), have_rank ? "size" : "rank"),
      "start with rondelrun, srun or mpirun, or set RONDEL_RANK, RONDEL_SIZE and "
      "RONDEL_STORE=file:///directory; to run alone, unset " +
          claim.names());
}

/// rondelrun takes other starters' variables out of its ranks' environment: these are from inside.
Status check_inside_of_rondelrun(const Lookup& lookup) {
  const auto ours = claim_of(starters::kRondelrun, lookup);
  if (!ours.ok() || !*ours) return {};  // Config has the better words
  for (const Starter* starter : starters::kForeign) {
    const auto theirs = claim_of(*starter, lookup);
    if (!theirs.ok() || !*theirs || !(*theirs)->contradicts(**ours)) continue;
    return Status(Code::refused,
                  fmt::format("{} started this process inside a rank of {}, and they contradict",
                              (*theirs)->text(), (*ours)->text()),
                  fmt::format("start ranks by one of them: {} outside of rondelrun, or rondelrun alone; to "
                              "stay rondelrun's rank, unset {}",
                              (*theirs)->starter->name, (*theirs)->names()));
  }
  return {};
}

/// mpirun's own name of a job is a 16-bit number; where its process listens makes it unique among hosts.
std::string name_of_job(const Claim& claim, const Lookup& lookup) {
  if (claim.starter == &starters::kOpenMpi)
    return fmt::format("openmpi-{}-{}", value_of(lookup, "PMIX_NAMESPACE"),
                       value_of(lookup, "OMPI_MCA_orte_hnp_uri"));
  // A job that is requeued keeps its number, and clusters that share homes count on their own.
  return fmt::format("slurm-{}-{}.{}-{}", value_of(lookup, "SLURM_CLUSTER_NAME"),
                     value_of(lookup, "SLURM_JOB_ID"), value_of(lookup, "SLURM_STEP_ID"),
                     value_of(lookup, "SLURM_RESTART_COUNT"));
}

/// The job that claims which agree with one another describe; nullopt when it is torchrun's.
Result<std::optional<ForeignJob>> job_of(const std::vector<Claim>& claims, const Lookup& lookup) {
  const auto best = std::find_if(claims.begin(), claims.end(), [](const Claim& c) { return c.complete(); });
  if (best == claims.end()) return only_half(claims.front());
  if (best->starter == &starters::kTorchrun) return std::optional<ForeignJob>();
  ForeignJob job{.starter = best->starter->name,
                 .variables = best->variables(),
                 .unset = best->names(),
                 .name = best->starter->names_its_jobs ? name_of_job(*best, lookup) : "pmi",
                 .rank = *best->rank,
                 .size = *best->size,
                 .local_rank = best->local_rank,
                 .local_size = best->local_size,
                 .pmi_descriptor = {}};
  const bool has_pmi =
      std::any_of(claims.begin(), claims.end(), [](const Claim& c) { return c.starter == &starters::kPmi; });
  const std::string descriptor = has_pmi ? value_of(lookup, "PMI_FD") : std::string();
  if (!descriptor.empty()) {
    int number = -1;
    const auto [end, error] =
        std::from_chars(descriptor.data(), descriptor.data() + descriptor.size(), number);
    if (error != std::errc() || end != descriptor.data() + descriptor.size() || number < 0)
      return Status(Code::invalid_argument,
                    fmt::format("PMI_FD is \"{}\", expected the number of a descriptor", descriptor),
                    "to run alone, unset " + job.unset);
    job.pmi_descriptor = number;
  }
  if (job.size > 1 && !job.pmi_descriptor && !best->starter->names_its_jobs)
    return Status(
        Code::unsupported,
        fmt::format("{} started this process, but without PMI_FD, by which ranks could meet", best->text()),
        "start with rondelrun, or give all ranks RONDEL_RANK, RONDEL_SIZE and "
        "RONDEL_STORE=file:///directory; to run alone, unset " +
            job.unset);
  return std::optional<ForeignJob>(std::move(job));
}

}  // namespace

Result<std::optional<ForeignJob>> foreign_job(const Lookup& lookup, const Ancestry& ancestry) {
  if (!value_of(lookup, "RONDEL_RANK").empty() || !value_of(lookup, "RONDEL_SIZE").empty()) {
    const bool by_hand = !value_of(lookup, "RONDEL_STORE").starts_with("tcp://") ||
                         value_of(lookup, "RONDEL_SECRET_FD").empty();
    if (!by_hand) RONDEL_TRY(check_inside_of_rondelrun(lookup));
    return std::optional<ForeignJob>();
  }
  const auto claims = foreign_claims(lookup);
  RONDEL_TRY(claims);
  if (claims->empty()) return std::optional<ForeignJob>();
  if (claims->size() == 1) return job_of(*claims, lookup);
  const auto nearest = innermost(*claims, lookup, ancestry());
  const bool complete =
      std::any_of(nearest.begin(), nearest.end(), [](const Claim& claim) { return claim.complete(); });
  if (complete && !contradictory(nearest)) return job_of(nearest, lookup);
  if (contradictory(*claims)) return undecided(*claims);
  return job_of(*claims, lookup);
}

}  // namespace rondel::c
