// SPDX-License-Identifier: Apache-2.0
// How long something took, by the clock and in processor time. Any thread.
#pragma once

#include <time.h>

#include <chrono>

#include "lib/deadline.h"

namespace rondel::test {

inline double seconds_since(Deadline::Clock::time_point begin) {
  return std::chrono::duration<double>(Deadline::Clock::now() - begin).count();
}

/// `clock`: CLOCK_THREAD_CPUTIME_ID or CLOCK_PROCESS_CPUTIME_ID.
inline std::chrono::nanoseconds cpu_time(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace rondel::test
