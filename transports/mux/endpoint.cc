// SPDX-License-Identifier: Apache-2.0
#include "transports/mux/endpoint.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "lib/check.h"
#include "lib/wire.h"
#include "transports/batch.h"
#include "transports/blame.h"

namespace rondel::mux {
namespace {

constexpr std::size_t kAddressLimit = 64 * 1024;
// The clock is read once in so many empty turns.
constexpr int kTurnsPerClockLook = 8;

/// A region that both sides know.
class MuxRegistration final : public Registration {
 public:
  using Sides = std::array<std::unique_ptr<Registration>, 2>;
  MuxRegistration(MemorySpan memory, Sides sides) : Registration(memory), sides_(std::move(sides)) {}
  const Registration* on(std::size_t side) const { return sides_[side].get(); }

 private:
  Sides sides_;
};

Capabilities both(const Capabilities& outer, const Capabilities* inner) {
  Capabilities capabilities = outer;
  if (inner == nullptr) return capabilities;
  check(outer.ordering == Ordering::host && inner->ordering == Ordering::host,
        "a mux is ordered by its host");
  capabilities.host_memory &= inner->host_memory;
  capabilities.cuda_memory &= inner->cuda_memory;
  capabilities.holds_memory &= inner->holds_memory;
  capabilities.max_in_flight = std::min(outer.max_in_flight, inner->max_in_flight);
  capabilities.max_slices = std::min(outer.max_slices, inner->max_slices);
  return capabilities;
}

}  // namespace

Result<std::unique_ptr<Endpoint>> MuxEndpoint::create(const EndpointOptions& options,
                                                      std::chrono::nanoseconds spin,
                                                      std::unique_ptr<Endpoint> inner,
                                                      std::unique_ptr<Endpoint> outer) {
  auto readiness = Readiness::create();
  RONDEL_TRY(readiness);
  return std::unique_ptr<Endpoint>(
      new MuxEndpoint(options, spin, std::move(inner), std::move(outer), std::move(readiness).value()));
}

MuxEndpoint::MuxEndpoint(const EndpointOptions& options, std::chrono::nanoseconds spin,
                         std::unique_ptr<Endpoint> inner, std::unique_ptr<Endpoint> outer,
                         Readiness readiness)
    : options_(options),
      capabilities_(both(outer->capabilities(), inner == nullptr ? nullptr : &inner->capabilities())),
      patience_(spin, options.oversubscribed),
      readiness_(std::move(readiness)) {
  sides_[kInner].endpoint = std::move(inner);
  sides_[kOuter].endpoint = std::move(outer);
}

// Sides that are well end by themselves, as what they sent may still be on its way.
MuxEndpoint::~MuxEndpoint() {
  if (!failure_.ok()) abort(failure_.code());
  for (Side& side : sides_) side.endpoint.reset();
}

template <class Visit>
void MuxEndpoint::each_side(Visit&& visit) const {
  for (const Side& side : sides_)
    if (side.endpoint != nullptr) visit(*side.endpoint);
}

std::size_t MuxEndpoint::side_of(Rank peer) const {
  if (sides_[kInner].endpoint == nullptr || peer < 0 || peer >= options_.size) return kOuter;
  const auto place_of = [this](Rank rank) { return options_.places[static_cast<std::size_t>(rank)]; };
  return place_of(peer) == place_of(options_.rank) ? kInner : kOuter;
}

// ---- connecting

Bytes MuxEndpoint::address() const {
  wire::Writer writer;
  for (const Side& side : sides_) writer.blob(side.endpoint == nullptr ? Bytes() : side.endpoint->address());
  return writer.take();
}

/// Inside first, on all ranks, so that nobody waits for one that waits for others.
Status MuxEndpoint::connect(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                            Deadline deadline) {
  if (!failure_.ok()) return failure_;
  std::array<std::vector<Bytes>, 2> addresses;
  for (const Bytes& address : by_rank) {
    wire::Reader reader(address);
    for (auto& of_side : addresses) {
      const auto blob = reader.blob(kAddressLimit);
      of_side.emplace_back(blob.begin(), blob.end());
    }
    if (!reader.finished())
      return Status(Code::refused,
                    fmt::format("{} sent a damaged address",
                                name_of(options_, static_cast<Rank>(addresses[kInner].size() - 1))),
                    "all ranks must run the same version");
  }
  std::array<std::vector<Rank>, 2> peers;
  for (const Rank peer : neighbours) peers[side_of(peer)].push_back(peer);
  for (const std::size_t side : {kInner, kOuter}) {
    if (sides_[side].endpoint == nullptr) continue;
    const Status connected = sides_[side].endpoint->connect(addresses[side], peers[side], deadline);
    if (!sides_[side].endpoint->failure().ok()) return poison(sides_[side].endpoint->failure());
    RONDEL_TRY(connected);
  }
  return {};
}

Result<std::unique_ptr<Registration>> MuxEndpoint::register_memory(MemorySpan memory) {
  MuxRegistration::Sides sides;
  for (const std::size_t side : {kInner, kOuter}) {
    if (sides_[side].endpoint == nullptr) continue;
    auto registered = sides_[side].endpoint->register_memory(memory);
    RONDEL_TRY(registered);
    sides[side] = std::move(registered).value();
  }
  return std::unique_ptr<Registration>(std::make_unique<MuxRegistration>(memory, std::move(sides)));
}

// ---- posting

std::span<const Slice> MuxEndpoint::translate(std::span<const Slice> slices, std::size_t side) {
  const std::size_t first = slices_.size();
  for (const Slice& slice : slices) {
    const auto& region = static_cast<const MuxRegistration&>(*slice.region);
    slices_.push_back({region.on(side), slice.offset, slice.bytes});
  }
  return std::span(slices_).subspan(first);
}

void MuxEndpoint::sort_out(std::span<const Work> batch) {
  std::size_t slices = 0;
  for (const Work& work : batch) slices += work.local.size() + work.other.size();
  slices_.clear();
  slices_.reserve(slices);  // works point into it
  for (Side& side : sides_) side.works.clear();
  for (const Work& work : batch) {
    const std::size_t side = side_of(work.peer);
    Work& translated = sides_[side].works.emplace_back(work);
    translated.local = translate(work.local, side);
    translated.other = translate(work.other, side);
  }
}

Status MuxEndpoint::can_post(std::span<const Work> batch) {
  if (!failure_.ok()) return failure_;
  RONDEL_TRY(validate(batch, capabilities_));
  sort_out(batch);
  for (const Side& side : sides_) {
    if (side.works.empty()) continue;
    const Status answer = side.endpoint->can_post(side.works);
    if (!side.endpoint->failure().ok()) return poison(answer);
    RONDEL_TRY(answer);
  }
  return {};
}

Status MuxEndpoint::post(std::span<const Work> batch, StreamRef stream) {
  RONDEL_TRY(can_post(batch));
  for (const Side& side : sides_) {
    if (side.works.empty()) continue;
    const Status posted = side.endpoint->post(side.works, stream);
    if (!posted.ok()) return poison(posted);  // half a batch can not be taken back
  }
  open_works_ += batch.size();
  patience_.posted();
  return {};
}

// ---- moving

Result<std::size_t> MuxEndpoint::turn() {
  std::size_t finished = 0;
  for (const Side& side : sides_) {
    if (side.endpoint == nullptr) continue;
    const auto moved = side.endpoint->progress(std::chrono::nanoseconds::zero());
    if (!moved.ok()) return poison(moved.status());
    finished += *moved;
  }
  open_works_ -= std::min(open_works_, finished);
  return finished;
}

Result<std::size_t> MuxEndpoint::progress(std::chrono::nanoseconds may_block_for) {
  if (!failure_.ok()) return failure_;
  const auto started = Deadline::Clock::now();
  for (int turns = 1;; ++turns) {
    auto finished = turn();
    if (!finished.ok()) return finished;
    if (*finished > 0) patience_.moved();
    if (*finished > 0 || may_block_for <= std::chrono::nanoseconds::zero()) return finished;
    if (turns % kTurnsPerClockLook != 0 && open_works_ > 0) continue;
    if (options_.oversubscribed) ::sched_yield();
    const auto now = Deadline::Clock::now();
    patience_.look(now);
    if (now - started >= may_block_for) return std::size_t{0};
    if (patience_.polls_on(now, open_works_ > 0)) continue;
    wait_descriptor();
    readiness_.wait(may_block_for - (now - started));
    turns = kTurnsPerClockLook - 1;
  }
}

int MuxEndpoint::wait_descriptor() {
  for (Side& side : sides_) {
    if (side.endpoint == nullptr) continue;
    const int descriptor = side.endpoint->wait_descriptor();
    check(descriptor >= 0, "both sides of a mux can be waited for");
    readiness_.watch(descriptor, EPOLLIN, side.watched_events);
  }
  return readiness_.descriptor();
}

// ---- failing

const Status& MuxEndpoint::poison(const Status& why) {
  if (failure_.ok()) failure_ = why;
  abort(why.code());
  return failure_;
}

void MuxEndpoint::abort(Code why) noexcept {
  if (failure_.ok()) failure_ = Status(why, "the endpoint was aborted");
  each_side([why](Endpoint& side) { side.abort(why); });
  open_works_ = 0;
}

std::optional<LabelMismatch> MuxEndpoint::mismatch() const {
  std::optional<LabelMismatch> found;
  each_side([&found](const Endpoint& side) {
    if (!found) found = side.mismatch();
  });
  return found;
}

std::uint64_t MuxEndpoint::bytes_received() const {
  std::uint64_t bytes = 0;
  each_side([&bytes](const Endpoint& side) { bytes += side.bytes_received(); });
  return bytes;
}

std::uint64_t MuxEndpoint::bytes_sent() const {
  std::uint64_t bytes = 0;
  each_side([&bytes](const Endpoint& side) { bytes += side.bytes_sent(); });
  return bytes;
}

std::vector<Counter> MuxEndpoint::counters() const {
  std::vector<Counter> counters;
  each_side([&counters](const Endpoint& side) {
    for (const Counter& counter : side.counters()) counters.push_back(counter);
  });
  return counters;
}

}  // namespace rondel::mux
