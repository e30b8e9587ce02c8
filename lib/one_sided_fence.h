// SPDX-License-Identifier: Apache-2.0
// OneSidedFence: keeps a store before a later load of other memory where one side does so all the time and
// the other hardly ever: who often stores and then looks whether somebody sleeps pays nothing, who falls
// asleep makes the processors of all processes that have joined pass a full fence (membarrier(2), expedited,
// global). Of the whole process; any thread.
#pragma once

#include <atomic>

namespace rondel {

class OneSidedFence {
 public:
  /// From now on heavy() of any process reaches this one's threads. False: the kernel does not offer it.
  static bool join();

  /// For a process that has joined, against those that call heavy().
  static void light() { std::atomic_signal_fence(std::memory_order_seq_cst); }
  /// Takes some microseconds and interrupts others. False: the kernel refused, and nothing was ordered there.
  [[nodiscard]] static bool heavy();
};

}  // namespace rondel
