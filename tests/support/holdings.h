// SPDX-License-Identifier: Apache-2.0
// What a process holds of the kernel, so that a test can show that something left nothing behind. Any thread.
#pragma once

#include <map>
#include <string>

namespace rondel::test {

/// How many of each kind this process has: descriptors by what they are, mappings of memfds, threads.
std::map<std::string, int> holdings();

/// Empty once this process holds what it did at `before`; threads and servers beside the test may take a
/// while to end. Else what it holds more or less of after ten seconds.
std::string kept_since(const std::map<std::string, int>& before);

}  // namespace rondel::test
