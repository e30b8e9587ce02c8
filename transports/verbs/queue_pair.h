// SPDX-License-Identifier: Apache-2.0
// QueuePair: one end of a reliable connection between two devices, from its making to ready-to-send. What it
// carries is the link's affair. Once destroyed, the device reads and writes nothing more for it. Driver
// thread only.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lib/memory.h"
#include "lib/status.h"
#include "transports/verbs/completion_queues.h"
#include "transports/verbs/device.h"
#include "transports/verbs/frame.h"

namespace rondel::verbs {

/// What one end tells the other, once both have proved who they are.
struct PairOffer {
  std::uint32_t layout = 0;  ///< of frame.h
  LinkLayer link_layer = LinkLayer::ethernet;
  Gid gid{};
  std::uint16_t lid = 0;
  std::uint32_t number = 0;     ///< of the queue pair
  std::uint32_t first_psn = 0;  ///< of its packets
  std::uint32_t mtu_bytes = 0;
  struct End {
    std::uint32_t number = 0;
    std::uint32_t first_psn = 0;
  };
  std::uint32_t stripes = 0;                  ///< further pairs
  std::array<End, kMostPairs - 1> further{};  ///< so many of these count
};
inline constexpr std::size_t kOfferBytes = 35 + 4 + 8 * (kMostPairs - 1);
Bytes encode(const PairOffer& offer);
Result<PairOffer> decode_offer(std::span<const std::byte> bytes);
/// refused, with both sides' values, when the two can not talk.
Status check_offer(const PairOffer& mine, const PairOffer& theirs);

/// Of requests that nobody waits for, one in so many asks for a completion.
inline constexpr std::uint32_t kSignalEvery = 16;

struct PairDepth {
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  std::uint32_t slices = 0;
  std::uint32_t inline_bytes = 0;
};

/// How patient the device is. Both counts are finite on purpose: 7 would mean for ever.
struct PairPatience {
  std::uint8_t timeout = 14;  ///< 4.096 us << timeout until a packet is sent again
  static constexpr std::uint8_t kRetries = 6;
};
/// The largest time-out with which a vanished peer is known in half of `silence`.
PairPatience patience_for(std::chrono::milliseconds silence);

class QueuePair {
 public:
  /// Ready to post receives on.
  static Result<QueuePair> create(std::shared_ptr<Device> device, const CompletionQueues& queues,
                                  std::uint32_t receives);

  const PairOffer& offer() const { return offer_; }
  const PairDepth& depth() const { return depth_; }
  ibv_qp* get() const { return pair_.get(); }

  /// After this returns ok the peer's packets are taken, and packets can be sent.
  Status bring_up(const PairOffer& theirs, PairPatience patience);
  void destroy() { pair_.reset(); }

 private:
  explicit QueuePair(std::shared_ptr<Device> device);
  bool make(const CompletionQueues& queues, std::uint32_t receives, std::uint32_t slices,
            std::uint32_t inline_bytes);
  Status initialise();
  Status not_taken(std::string_view step, int error) const;
  Status become_ready_to_receive(const PairOffer& theirs);

  std::shared_ptr<Device> device_;
  Owned<ibv_qp> pair_;
  PairOffer offer_;
  PairDepth depth_;
};

}  // namespace rondel::verbs
