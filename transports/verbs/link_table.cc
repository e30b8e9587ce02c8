// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/link_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/log.h"
#include "transports/verbs/frame.h"

namespace rondel::verbs {
namespace {

// A mark is a rank and, above it, a count that tells a link from the one before it.
constexpr std::uint32_t kRankBits = 20;
constexpr std::uint32_t kRankMask = (1U << kRankBits) - 1;

// Completions of what one queue pair sends: each request may ask for one.
constexpr std::uint32_t kDeparturesPerPair = 192;

}  // namespace

std::uint32_t LinkRoom::arrivals() const { return links * (kReceiveDepth + (pairs - 1) * kStripeReceives); }
std::uint32_t LinkRoom::departures() const { return links * pairs * kDeparturesPerPair; }

LinkRoom room_on(const Device& device, std::uint32_t peers, std::uint32_t pairs) {
  const std::uint32_t most = device.limits().completions;
  const auto links_with = [most, peers](std::uint32_t each) {
    const LinkRoom one{1, each};
    return std::min({peers, most / one.arrivals(), most / one.departures()});
  };
  const std::uint32_t wanted = pairs;
  while (pairs > 1 && links_with(pairs) < peers) --pairs;
  if (pairs < wanted)
    log(LogLevel::info,
        "verbs: the completion queues of {} have room for {} queue pairs to each of {} peers, not {}",
        device.choice().device, pairs, peers, wanted);
  return {std::max(1U, links_with(pairs)), pairs};
}

LinkTable::LinkTable(std::shared_ptr<Device> device, const CompletionQueues& queues, Rank size, LinkRoom room,
                     PairPatience patience)
    : device_(std::move(device)),
      queues_(queues),
      room_(room),
      patience_(patience),
      by_rank_(static_cast<std::size_t>(size)) {}

Link* LinkTable::connected(Rank peer) const {
  const auto index = static_cast<std::size_t>(peer);
  if (peer < 0 || index >= by_rank_.size() || by_rank_[index] == nullptr) return nullptr;
  return by_rank_[index]->is_connected() ? by_rank_[index].get() : nullptr;
}

Link* LinkTable::find(std::uint32_t mark) const {
  const std::size_t index = mark & kRankMask;
  if (index >= by_rank_.size() || by_rank_[index] == nullptr) return nullptr;
  return by_rank_[index]->mark() == mark ? by_rank_[index].get() : nullptr;
}

Result<Link*> LinkTable::begin(Rank peer) {
  std::unique_ptr<Link>& place = by_rank_[static_cast<std::size_t>(peer)];
  if (place != nullptr && place->is_connected()) {
    if (!place->settled() || place->has_works())
      return Status(Code::unavailable, fmt::format("rank {} is connected already", peer));
    before_ += place->counts();
  }
  place.reset();
  const auto links =
      std::count_if(by_rank_.begin(), by_rank_.end(), [](const auto& link) { return link != nullptr; });
  if (static_cast<std::uint32_t>(links) >= room_.links)
    return Status(Code::out_of_resources,
                  fmt::format("the completion queues of {} have room for {} links", device_->choice().device,
                              room_.links),
                  "use another transport for so many neighbours");
  auto link = Link::create(device_, queues_, peer, begun_++ << kRankBits | static_cast<std::uint32_t>(peer),
                           room_.pairs);
  RONDEL_TRY(link);
  place = *std::move(link);
  return place.get();
}

void LinkTable::give_up(std::uint32_t mark) {
  const Link* const link = find(mark);
  if (link != nullptr && !link->is_connected()) by_rank_[mark & kRankMask].reset();
}

std::uint64_t LinkTable::bytes_sent() const {
  std::uint64_t bytes = before_.sent_bytes;
  for (const auto& link : by_rank_) bytes += link == nullptr ? 0 : link->bytes_sent();
  return bytes;
}

std::uint64_t LinkTable::bytes_received() const {
  std::uint64_t bytes = before_.received_bytes;
  for (const auto& link : by_rank_) bytes += link == nullptr ? 0 : link->bytes_received();
  return bytes;
}

LinkCounts LinkTable::counts() const {
  LinkCounts counts = before_;
  for (const auto& link : by_rank_)
    if (link != nullptr) counts += link->counts();
  return counts;
}

}  // namespace rondel::verbs
