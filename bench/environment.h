// SPDX-License-Identifier: Apache-2.0
// What a number depends on besides the code: kernel, processor, load, TCP settings. Read from /proc and uname
// each time; a text that cannot be read is "unknown". Any thread.
#pragma once

#include <array>
#include <string>

namespace rondel::bench {

struct Environment {
  std::string date;  // ISO 8601, UTC
  std::string host, kernel, machine, processor;
  long cores = 0;                        // online
  std::array<double, 3> load_average{};  // 1, 5, 15 minutes
  std::string congestion_control;        // the system's default for TCP
};

Environment read_environment();

}  // namespace rondel::bench
