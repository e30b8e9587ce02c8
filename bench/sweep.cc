// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace rondel::bench {
namespace {

constexpr std::size_t kBytesPerSize = std::size_t{256} << 20;
constexpr double kSecondsPerSize = 0.5;
constexpr int kLeastIterations = 10;
constexpr int kMostIterations = 2000;
constexpr std::size_t kMostBytes = std::size_t{1} << 40;

int shift_of(std::string_view suffix) {
  if (suffix.empty()) return 0;
  if (suffix == "K" || suffix == "k") return 10;
  if (suffix == "M" || suffix == "m") return 20;
  if (suffix == "G" || suffix == "g") return 30;
  return -1;
}

}  // namespace

Result<std::size_t> parse_bytes(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const int shift = shift_of(text.substr(static_cast<std::size_t>(end - text.data())));
  if (error != std::errc() || shift < 0)
    return Status(Code::invalid_argument,
                  fmt::format("\"{}\" is not a size such as 8, 64K, 128M or 1G", text));
  if (number > kMostBytes >> shift)
    return Status(Code::invalid_argument, fmt::format("\"{}\" is more than the most that fits, 1024G", text));
  return number << shift;
}

std::vector<std::size_t> sizes_of(const Sweep& sweep) {
  std::vector<std::size_t> sizes;
  std::size_t bytes = sweep.begin_bytes;
  while (bytes <= sweep.end_bytes) {
    sizes.push_back(bytes);
    bytes = sweep.step_bytes > 0 ? bytes + sweep.step_bytes : bytes * sweep.factor;
    if (bytes <= sizes.back()) break;  // 0 times a factor
  }
  return sizes;
}

int iterations_for(const Sweep& sweep, std::size_t bytes) {
  if (sweep.iterations > 0) return sweep.iterations;
  const std::size_t wanted = kBytesPerSize / std::max<std::size_t>(bytes, 1);
  return static_cast<int>(std::clamp<std::size_t>(wanted, kLeastIterations, kMostIterations));
}

int warmup_for(const Sweep& sweep, std::size_t bytes) {
  if (sweep.warmup >= 0) return sweep.warmup;
  return std::clamp(iterations_for(sweep, bytes) / 5, 3, 100);
}

int limit_iterations(const Sweep& sweep, int iterations, double seconds_each) {
  if (sweep.iterations > 0 || seconds_each <= 0) return iterations;
  const double most = std::max(kSecondsPerSize / seconds_each, double{kLeastIterations});
  return most < iterations ? static_cast<int>(most) : iterations;
}

}  // namespace rondel::bench
