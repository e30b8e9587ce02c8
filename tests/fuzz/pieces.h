// SPDX-License-Identifier: Apache-2.0
// Pieces: a fuzz input taken apart into small decisions and blobs. Past its end everything is zero and empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rondel::fuzz {

class Pieces {
 public:
  Pieces(const std::uint8_t* data, std::size_t size) : rest_(std::as_bytes(std::span(data, size))) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    const auto taken = bytes(1);
    return taken.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(taken.front());
  }
  std::uint16_t number() { return static_cast<std::uint16_t>(byte() | byte() << 8); }
  /// At most `count` bytes.
  std::span<const std::byte> bytes(std::size_t count) {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  /// A length in two bytes, then that many.
  std::span<const std::byte> blob() { return bytes(number()); }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace rondel::fuzz
