// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/claims.h"

#include <fmt/format.h>

#include <charconv>

#include "lib/slurm.h"

namespace rondel::c {
namespace {

Result<Rank> number_of(const Lookup& lookup, const char* name, Rank least, Rank most) {
  const std::string text = value_of(lookup, name);
  Rank number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least && number <= most)
    return number;
  return Status(Code::invalid_argument,
                fmt::format("{} is \"{}\", expected a whole number from {} to {}", name, text, least, most),
                "set RONDEL_RANK and RONDEL_SIZE, which count before what other launchers set");
}

/// The variables that make a starter's claim are there. Empty ones count for those that only launchers set,
/// so that a broken launcher is told; people unset RANK and WORLD_SIZE by emptying them.
bool claims(const Starter& starter, const Lookup& lookup) {
  const auto is_set = [&lookup](const char* name) { return lookup(name) != nullptr; };
  if (&starter == &starters::kOpenMpi) return is_set(starter.rank);
  if (&starter == &starters::kPmi) return is_set(starter.rank) && is_set(starter.size);
  if (&starter == &starters::kPmix) return is_set(starter.rank) && is_set(starter.mark);
  if (&starter == &starters::kSlurm)
    return is_set(starter.rank) && is_set(starter.size) && is_set(starter.mark);
  return !value_of(lookup, starter.rank).empty() || !value_of(lookup, starter.size).empty();
}

/// Where ranks share a host only makes things faster: what can not be read is left out.
void read_local_place(Claim& claim, const Lookup& lookup) {
  const auto local_rank = number_of(lookup, claim.starter->local_rank, 0, kMostRanks - 1);
  auto local_size = number_of(lookup, claim.starter->local_size, 1, kMostRanks);
  if (claim.starter == &starters::kSlurm) {
    const auto node = number_of(lookup, "SLURM_NODEID", 0, kMostRanks);
    const auto tasks = slurm_counts(value_of(lookup, "SLURM_STEP_TASKS_PER_NODE"));
    if (!node.ok() || static_cast<std::size_t>(*node) >= tasks.size()) return;
    local_size = tasks[static_cast<std::size_t>(*node)];
  }
  if (!local_rank.ok() || !local_size.ok() || *local_rank >= *local_size || *local_size > claim.size) return;
  claim.local_rank = *local_rank;
  claim.local_size = *local_size;
}

}  // namespace

bool Claim::contradicts(const Claim& other) const {
  return (rank && other.rank && *rank != *other.rank) || (size && other.size && *size != *other.size);
}

std::string Claim::variables() const {
  std::string text;
  if (rank) text = fmt::format("{}={}", starter->rank, *rank);
  if (size) text += fmt::format("{}{}={}", rank ? ", " : "", starter->size, *size);
  return text;
}

std::string Claim::names() const {
  return fmt::format("{}{}{}", rank ? starter->rank : "", complete() ? ", " : "", size ? starter->size : "");
}

std::string Claim::text() const { return fmt::format("{} ({})", starter->name, variables()); }

Result<std::optional<Claim>> claim_of(const Starter& starter, const Lookup& lookup) {
  if (!claims(starter, lookup)) return std::optional<Claim>();
  Claim claim{.starter = &starter, .rank = {}, .size = {}, .local_rank = {}, .local_size = {}};
  // Only torchrun's can be there by half: a script exports WORLD_SIZE for its own use.
  const bool halves = &starter == &starters::kTorchrun || &starter == &starters::kRondelrun;
  if (!halves || !value_of(lookup, starter.rank).empty()) {
    const auto rank = number_of(lookup, starter.rank, 0, kMostRanks - 1);
    RONDEL_TRY(rank);
    claim.rank = *rank;
  }
  if (*starter.size != '\0' && (!halves || !value_of(lookup, starter.size).empty())) {
    const auto size = number_of(lookup, starter.size, 1, kMostRanks);
    RONDEL_TRY(size);
    claim.size = *size;
  }
  if (claim.complete() && *claim.rank >= *claim.size)
    return Status(
        Code::invalid_argument,
        fmt::format("{}={} is not below {}={}", starter.rank, *claim.rank, starter.size, *claim.size),
        "set RONDEL_RANK and RONDEL_SIZE, which count before what other launchers set");
  if (claim.complete()) read_local_place(claim, lookup);
  return std::optional<Claim>(claim);
}

Result<std::vector<Claim>> foreign_claims(const Lookup& lookup) {
  std::vector<Claim> all;
  for (const Starter* starter : starters::kForeign) {
    const auto claim = claim_of(*starter, lookup);
    RONDEL_TRY(claim);
    if (*claim) all.push_back(**claim);
  }
  return all;
}

}  // namespace rondel::c
