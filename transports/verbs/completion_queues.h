// SPDX-License-Identifier: Apache-2.0
// CompletionQueues: where the device tells an endpoint what is done: one queue for what arrived, one for what
// was sent, and the channel that wakes a sleeper. Two queues, because what was sent is news only to who waits
// for it: a credit that has left must not wake anybody. Owned by the endpoint; driver thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/status.h"
#include "transports/verbs/device.h"

namespace rondel::verbs {

class CompletionQueues {
 public:
  static constexpr std::size_t kBatch = 32;

  static Result<std::unique_ptr<CompletionQueues>> create(std::shared_ptr<Device> device,
                                                          std::uint32_t arrivals, std::uint32_t departures);

  ibv_cq* arrivals() const { return arrivals_.get(); }
  ibv_cq* departures() const { return departures_.get(); }
  /// Readable when something is in an armed queue.
  int descriptor() const { return channel_->fd; }

  /// Up to kBatch completions each; empty: none. Valid until the next call.
  std::span<const ibv_wc> take_arrivals() { return arrived_.take(*device_, arrivals()); }
  std::span<const ibv_wc> take_departures() { return departed_.take(*device_, departures()); }

  /// Makes the descriptor quiet until something new comes. True when something is there already: then it
  /// stays quiet, and the caller must take what there is.
  bool arm(bool departures_too);
  /// The device gave up on a queue.
  bool broken() const { return arrived_.broken || departed_.broken; }

 private:
  /// What was polled, and not yet taken.
  struct Polled {
    std::array<ibv_wc, kBatch> entries;
    std::size_t count = 0;
    bool broken = false;
    bool fill(const Device& device, ibv_cq* queue);
    std::span<const ibv_wc> take(const Device& device, ibv_cq* queue);
  };

  explicit CompletionQueues(std::shared_ptr<Device> device);

  const std::shared_ptr<Device> device_;
  Owned<ibv_comp_channel> channel_;
  Owned<ibv_cq> arrivals_;
  Owned<ibv_cq> departures_;
  Polled arrived_;
  Polled departed_;
};

}  // namespace rondel::verbs
