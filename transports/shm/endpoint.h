// SPDX-License-Identifier: Apache-2.0
// The endpoint over shared memory: links to the peers that were connected, moved by the driver thread. It
// polls the shared segments for a while, then sleeps until a peer sends a wake.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/readiness.h"
#include "transports/endpoint.h"
#include "transports/patience.h"
#include "transports/shm/door.h"
#include "transports/shm/link.h"
#include "transports/transport.h"

namespace rondel::shm {

struct EndpointPolicy {
  std::chrono::nanoseconds spin{std::chrono::microseconds(1000)};  ///< RONDEL_SPIN_US
  bool pull = true;                                                ///< RONDEL_SHM_PULL
};

class ShmEndpoint final : public Endpoint, private LoadStore {
 public:
  static Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options, const EndpointPolicy& policy);
  ~ShmEndpoint() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  Bytes address() const override { return encode(door_->address()); }
  Status connect(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                 Deadline deadline) override;
  Result<std::unique_ptr<Registration>> register_memory(MemorySpan memory) override;
  Status post(std::span<const Work> batch, StreamRef stream) override;
  Status can_post(std::span<const Work> batch) override;
  Result<std::size_t> progress(std::chrono::nanoseconds may_block_for) override;
  void abort(Code why) noexcept override;
  const Status& failure() const override { return failure_; }
  std::optional<LabelMismatch> mismatch() const override { return mismatch_; }
  int wait_descriptor() override;
  std::uint64_t bytes_received() const override;
  std::uint64_t bytes_sent() const override;
  LoadStore* load_store() override { return this; }

 private:
  /// Before what the caller keeps on a board.
  struct alignas(64) BoardHead {
    std::atomic<std::uint32_t> sleeping{0};        // whoever sees 1 and makes it 0 sends a wake
    std::atomic<std::uint32_t> fences_for_all{0};  // before it looks whether to sleep: heavy()
  };

  ShmEndpoint(std::unique_ptr<Door> door, const EndpointOptions& options, const EndpointPolicy& policy,
              Readiness readiness);

  Link* link_to(Rank peer) const { return by_rank_[static_cast<std::size_t>(peer)].get(); }
  void take_in(Door::Guest guest, std::vector<Rank>& missing);
  Status no_connection(Rank peer, const Status& why) const;
  std::optional<std::size_t> room_for(const Work& work) const;
  Turn turn_of_links();
  void settle();
  void watch_links();
  void fall_asleep();
  bool all_fence_for_us() const;
  /// Peers may still rely on a fence that the kernel refuses by now.
  bool fence_is_broken() const {
    return fence_joined_ && head_->fences_for_all.load(std::memory_order_relaxed) == 0;
  }
  static BoardHead* head_of(const Link& link);
  bool has_something_to_do() const;
  void sleep(std::chrono::nanoseconds at_most);
  void read_notes();
  void poison_by(const Link& link);

  Status open_board() override;
  std::span<std::byte> board() override;
  std::byte* board_of(Rank peer) override;
  Reference share(const void* data, std::size_t bytes) override;
  std::byte* reach(Rank peer, Reference what, std::size_t bytes) override;
  void published() override;
  void await(const Awaited* awaited) override;
  void count(std::uint64_t loaded_bytes, std::uint64_t stored_bytes) override;
  bool is_awaited_ready() const { return awaited_ != nullptr && awaited_->ready(); }
  Link* awaited_and_gone() const;

  const std::unique_ptr<Door> door_;
  const EndpointOptions options_;
  Patience patience_;
  Capabilities capabilities_;
  Readiness readiness_;
  std::vector<std::byte> stage_;
  std::vector<std::unique_ptr<Link>> by_rank_;  // null: not connected
  std::vector<Link*> active_;                   // links with works posted
  int idle_calls_ = 0;
  std::optional<SharedMemory> board_;
  BoardHead* head_ = nullptr;
  bool fence_joined_ = false;
  const Awaited* awaited_ = nullptr;
  std::uint32_t awaits_ = 0;
  std::uint64_t loaded_bytes_ = 0;
  std::uint64_t stored_bytes_ = 0;
  Status failure_;
  std::optional<LabelMismatch> mismatch_;
};

}  // namespace rondel::shm
