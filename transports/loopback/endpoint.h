// SPDX-License-Identifier: Apache-2.0
// LoopbackEndpoint: the contract over queues in shared memory of one process. The receiver does the moving:
// it pairs its oldest receive with its peer's oldest send, compares labels and lengths, and copies or folds
// straight out of the sender's slices. Owned by its opener; driver thread only, except for what Port shares
// under the world's mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transports/loopback/world.h"
#include "transports/transport.h"

namespace rondel::loopback {

class LoopbackEndpoint final : public Endpoint {
 public:
  LoopbackEndpoint(std::shared_ptr<World> world, const EndpointOptions& options);
  ~LoopbackEndpoint() override;
  LoopbackEndpoint(const LoopbackEndpoint&) = delete;
  LoopbackEndpoint& operator=(const LoopbackEndpoint&) = delete;

  const Capabilities& capabilities() const override { return capabilities_; }
  Bytes address() const override;
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
  std::uint64_t bytes_received() const override { return bytes_received_; }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// A posted receive; only its own thread knows of it.
  struct Receive {
    Verb verb = Verb::recv;
    std::vector<Slice> to;
    std::vector<Slice> other;
    Reduction reduction;
    std::size_t bytes = 0;
    Label label;
    Completion* done = nullptr;
  };
  struct Peer {
    Rank rank = kNoRank;
    std::shared_ptr<Port> port;
    Outgoing* from_me = nullptr;  // in my port
    Outgoing* to_me = nullptr;    // in the peer's port
    std::deque<Receive> receives;
  };

  Status invite(std::span<const Bytes> by_rank, std::span<const Rank> neighbours, std::vector<Peer>& invited);
  Status await(std::vector<Peer>& invited, Deadline deadline);
  Status check_room(std::span<const Work> batch) const;

  std::size_t move_all(Lock& lock);
  bool move_next(Peer& peer, Lock& lock);
  bool labels_agree(const Peer& peer, const Receive& receive, const Send& send);
  void move_bytes(const Receive& receive, const Send& send);
  std::size_t finish_moved_sends();
  const Peer* first_lost_peer() const;

  Status lost(Rank peer, Code closed_with) const;
  Failure describe(Rank peer, std::string cause) const;
  void close(Lock& lock, Code why) noexcept;
  void poison(Lock& lock, Status why) noexcept;

  const std::shared_ptr<World> world_;
  const EndpointOptions options_;
  const Capabilities capabilities_;
  const std::shared_ptr<Port> port_;
  std::map<Rank, Peer> peers_;
  Status failure_;
  std::optional<LabelMismatch> mismatch_;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace rondel::loopback
