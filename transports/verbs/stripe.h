// SPDX-License-Identifier: Apache-2.0
// Stripe: a further queue pair of a link, for devices that do not fill the line with one. It carries pieces
// and nothing else, so its receives need no memory. Owned by the link; driver thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/status.h"
#include "transports/verbs/completion_queues.h"
#include "transports/verbs/frame.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/send_queue.h"

namespace rondel::verbs {

class Stripe {
 public:
  /// Of a link's queue pairs the one of this index, from 1 on, with its receives posted.
  static Result<std::unique_ptr<Stripe>> create(std::shared_ptr<Device> device,
                                                const CompletionQueues& queues, std::uint32_t mark,
                                                std::uint32_t index);
  /// The index of the stripe of which a receive's completion tells; 0: it is the link's first pair's.
  static std::uint32_t index_of(std::uint64_t receive) {
    return (receive & kReceiveOfStripe) != 0 ? static_cast<std::uint32_t>(receive) % kMostPairs : 0;
  }

  const PairOffer& offer() const { return pair_.offer(); }
  Status bring_up(const PairOffer& theirs, PairPatience patience) { return pair_.bring_up(theirs, patience); }
  SendQueue& requests() { return requests_; }
  const SendQueue& requests() const { return requests_; }
  /// A receive was used.
  void used() { ++used_; }
  /// Posts the used ones again, once that makes a list, and all requests. errno of a receive, or 0.
  int flush();
  void destroy() { pair_.destroy(); }
  std::uint64_t receives() const { return receives_; }
  std::uint64_t doorbells() const { return doorbells_ + requests_.doorbells(); }

 private:
  static constexpr std::uint64_t kReceiveOfStripe = 0x80000000;  // in the lower half of its number

  Stripe(std::shared_ptr<Device> device, QueuePair pair, std::uint32_t mark, std::uint32_t index);
  int post_used();

  const std::shared_ptr<Device> device_;
  const std::uint64_t receive_;
  QueuePair pair_;
  SendQueue requests_;
  std::uint32_t used_ = kStripeReceives;
  std::uint64_t receives_ = 0;
  std::uint64_t doorbells_ = 0;  // for receives
};

}  // namespace rondel::verbs
