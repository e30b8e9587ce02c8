// SPDX-License-Identifier: Apache-2.0
#include "transports/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "lib/wire.h"

namespace rondel {

namespace {

constexpr std::size_t kTextLimit = 4096;
constexpr std::uint32_t kOfferLimit = 64;

struct Verdict {
  bool usable = false;
  std::uint64_t bytes_per_second = 0;
  std::string why_not;
};

template <class AnyOffers>  // const or not
auto find_probe(AnyOffers& offers, std::string_view name) -> decltype(&offers.front().probe) {
  const auto found =
      std::find_if(offers.begin(), offers.end(), [name](const Offer& o) { return o.name == name; });
  return found == offers.end() ? nullptr : &found->probe;
}

std::string names_of(const Offers& offers) {
  std::string names;
  for (const Offer& offer : offers) names += fmt::format("{}{}", names.empty() ? "" : ", ", offer.name);
  return names.empty() ? "none" : names;
}

std::string rank_text(std::size_t rank, std::span<const std::string> hosts) {
  return rank < hosts.size() && !hosts[rank].empty() ? fmt::format("rank {} on {}", rank, hosts[rank])
                                                     : fmt::format("rank {}", rank);
}

// The first reason why the ranks can not all use `name`, or its speed on the slowest of them.
Verdict judge(std::string_view name, std::span<const Offers> by_rank, std::span<const std::string> hosts) {
  Verdict verdict{
      .usable = true, .bytes_per_second = std::numeric_limits<std::uint64_t>::max(), .why_not = {}};
  const Probe* first = nullptr;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Probe* probe = find_probe(by_rank[rank], name);
    if (probe == nullptr)
      return {.why_not = fmt::format("{} does not have it in its build (it has {})", rank_text(rank, hosts),
                                     names_of(by_rank[rank]))};
    if (!probe->usable) return {.why_not = fmt::format("{}: {}", rank_text(rank, hosts), probe->why_not)};
    if (first == nullptr) first = probe;
    if (probe->domain != first->domain)
      return {.why_not = fmt::format("it joins {} only, which {} and {} are not",
                                     probe->joins.empty() ? "ranks of one domain" : probe->joins,
                                     rank_text(0, hosts), rank_text(rank, hosts))};
    verdict.bytes_per_second = std::min(verdict.bytes_per_second, probe->bytes_per_second);
  }
  return verdict;
}

/// Empty when `name`, which all ranks can use, is no mux.
std::vector<std::uint32_t> places_of(std::string_view name, std::span<const Offers> by_rank) {
  std::vector<std::uint32_t> places;
  std::map<std::string_view, std::uint32_t> lowest_of_domain;
  for (const Offers& offers : by_rank) {
    const std::optional<std::string>& domain = find_probe(offers, name)->inner_domain;
    if (!domain) return {};
    const auto rank = static_cast<std::uint32_t>(places.size());
    places.push_back(domain->empty() ? rank : lowest_of_domain.try_emplace(*domain, rank).first->second);
  }
  return places;
}

/// The domain that a beacon of `probe` is for.
std::string& joined_by_beacon(Probe& probe) {
  return probe.inner_domain ? *probe.inner_domain : probe.domain;
}
const std::string& joined_by_beacon(const Probe& probe) {
  return probe.inner_domain ? *probe.inner_domain : probe.domain;
}

bool all_differ(std::span<const std::uint32_t> places) {
  return std::set<std::uint32_t>(places.begin(), places.end()).size() == places.size();
}

std::set<std::string> candidates(std::span<const Offers> by_rank, std::string_view wanted) {
  if (!wanted.empty()) return {std::string(wanted)};
  std::set<std::string> names;
  for (const Offers& offers : by_rank)
    for (const Offer& offer : offers) names.insert(offer.name);
  return names;
}

}  // namespace

Bytes encode(const Offers& offers) {
  wire::Writer writer;
  writer.number(static_cast<std::uint32_t>(offers.size()));
  for (const Offer& offer : offers) {
    writer.text(offer.name).number(static_cast<std::uint8_t>(offer.probe.usable ? 1 : 0));
    writer.text(offer.probe.why_not)
        .text(offer.probe.domain)
        .text(offer.probe.joins)
        .number(offer.probe.bytes_per_second);
    writer.number(static_cast<std::uint8_t>(offer.probe.inner_domain ? 1 : 0));
    if (offer.probe.inner_domain) writer.text(*offer.probe.inner_domain);
    writer.blob(offer.probe.beacon);
  }
  return writer.take();
}

Result<Offers> decode_offers(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  const auto count = reader.number<std::uint32_t>();
  Offers offers;
  for (std::uint32_t i = 0; i < std::min(count, kOfferLimit) && reader.good(); ++i) {
    Offer offer;
    offer.name = reader.text(kTextLimit);
    offer.probe.usable = reader.number<std::uint8_t>() != 0;
    offer.probe.why_not = reader.text(kTextLimit);
    offer.probe.domain = reader.text(kTextLimit);
    offer.probe.joins = reader.text(kTextLimit);
    offer.probe.bytes_per_second = reader.number<std::uint64_t>();
    if (reader.number<std::uint8_t>() != 0) offer.probe.inner_domain = reader.text(kTextLimit);
    const auto beacon = reader.blob(kTextLimit);
    offer.probe.beacon.assign(beacon.begin(), beacon.end());
    offers.push_back(std::move(offer));
  }
  if (!reader.finished() || offers.size() != count)
    return Status(Code::refused, fmt::format("{} bytes are not a list of transports", bytes.size()),
                  "all ranks must run the same version");
  return offers;
}

Result<Choice> select_transport(std::span<const Offers> by_rank, std::span<const std::string> hosts,
                                std::string_view wanted) {
  Choice best;
  std::uint64_t best_bytes_per_second = 0;
  std::string reasons;
  for (const std::string& name :
       candidates(by_rank, wanted)) {  // in the order of names, so that ties are settled
    Verdict verdict = judge(name, by_rank, hosts);
    if (!verdict.usable) {
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", name, verdict.why_not);
      continue;
    }
    std::vector<std::uint32_t> places = places_of(name, by_rank);
    if (!places.empty() && all_differ(places)) verdict.bytes_per_second = 0;  // its outer transport does
    if (!best.transport.empty() && verdict.bytes_per_second <= best_bytes_per_second) continue;
    best = {name, std::move(places)};
    best_bytes_per_second = verdict.bytes_per_second;
  }
  if (!best.transport.empty()) return best;
  if (reasons.empty()) reasons = "no rank offers any";
  return Status(
      Code::unavailable, fmt::format("no transport that all {} ranks can use ({})", by_rank.size(), reasons),
      wanted.empty() ? "" : "leave RONDEL_TRANSPORT (--transport) out and Rondel chooses, or mend that");
}

std::vector<Rank> beacons_to_try(std::string_view name, std::span<const Offers> by_rank, Rank rank) {
  const std::string& domain = joined_by_beacon(*find_probe(by_rank[static_cast<std::size_t>(rank)], name));
  std::vector<Rank> owners;
  for (Rank other = 0; other < std::ssize(by_rank) && !domain.empty(); ++other) {
    if (other == rank) continue;
    const Probe& probe = *find_probe(by_rank[static_cast<std::size_t>(other)], name);
    if (!probe.beacon.empty() && joined_by_beacon(probe) == domain) owners.push_back(other);
  }
  return owners;
}

const Bytes& beacon_of(std::string_view name, const Offers& offers) {
  return find_probe(offers, name)->beacon;
}

void separate(std::string_view name, std::span<Offers> by_rank,
              std::span<const std::vector<Rank>> unreached) {
  std::map<std::string, std::vector<std::vector<Rank>>> groups_of_domain;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const std::string& domain = joined_by_beacon(*find_probe(by_rank[rank], name));
    if (domain.empty()) continue;
    auto& groups = groups_of_domain[domain];
    const auto reaches = [&unreached](std::size_t from, Rank to) {
      return std::ranges::find(unreached[from], to) == unreached[from].end();
    };
    const auto reaches_all = [&reaches, rank](const std::vector<Rank>& group) {
      return std::ranges::all_of(group, [&reaches, rank](Rank member) {
        return reaches(rank, member) && reaches(static_cast<std::size_t>(member), static_cast<Rank>(rank));
      });
    };
    auto group = std::ranges::find_if(groups, reaches_all);
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->push_back(static_cast<Rank>(rank));
  }
  for (const auto& [domain, groups] : groups_of_domain)
    for (std::size_t i = 1; i < groups.size(); ++i)
      for (const Rank rank : groups[i]) {
        Probe& probe = *find_probe(by_rank[static_cast<std::size_t>(rank)], name);
        joined_by_beacon(probe) = fmt::format("{}/with rank {}", domain, groups[i].front());
        probe.joins += ", as far as they reach one another,";
      }
}

}  // namespace rondel
