// SPDX-License-Identifier: Apache-2.0
// Counts the system calls of a piece of work as the kernel sees them, in a child that is traced. Other
// threads of the child are not counted. One at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace rondel::test {

struct SystemCalls {
  bool traced = false;                   ///< false: this process may not trace its children
  int exit_code = -1;                    ///< of the child; -1 when a signal ended it
  std::map<long, std::uint64_t> counts;  ///< by number (SYS_...)
  std::uint64_t of(long number) const;
  /// "3 of number 45, ...", without the ones named.
  std::string others(std::initializer_list<long> named) const;
};

/// Runs `work` in a child, which ends with what it returns; what is called between start_counting() and
/// stop_counting() is counted. The child must not use what checks in its parent.
SystemCalls count_system_calls(const std::function<int()>& work);
void start_counting();
void stop_counting();

}  // namespace rondel::test
