// SPDX-License-Identifier: Apache-2.0
#include "tests/support/holdings.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/deadline.h"

namespace rondel::test {

std::map<std::string, int> holdings() {
  namespace fs = std::filesystem;
  std::map<std::string, int> held;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    const std::string target = fs::read_symlink(entry, gone).string();
    if (!gone) ++held[target.substr(0, target.find(":["))];  // "socket:[4711]"
  }
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/task", gone)) ++held["thread"];
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/memfd:") != std::string::npos) ++held["mapped memfd"];
  return held;
}

std::string kept_since(const std::map<std::string, int>& before) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(10));
  auto now = holdings();
  for (; now != before && !deadline.passed(); now = holdings()) std::this_thread::yield();
  std::string kept;
  for (const auto& [what, count] : before) now[what] -= count;
  for (const auto& [what, count] : now)
    if (count != 0) kept += (count > 0 ? "+" : "") + std::to_string(count) + " " + what + "\n";
  return kept;
}

}  // namespace rondel::test
