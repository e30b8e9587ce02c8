// SPDX-License-Identifier: Apache-2.0
// Fixed-width little-endian encoding of what crosses a socket, with bounds checks. Writer appends to a buffer
// it owns; Reader walks bytes that somebody else owns and turns bad at the first read past their end. One
// thread each.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lib/memory.h"

namespace rondel::wire {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class Writer {
 public:
  template <std::unsigned_integral T>
  Writer& number(T value) {
    std::array<std::byte, sizeof(T)> bytes;
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
    return raw(bytes);
  }
  /// Not inlined: g++ 12 sees overflows that are not there in chains of inlined vector insertions.
  [[gnu::noinline]] Writer& raw(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  /// A 32-bit length, then the bytes.
  Writer& blob(std::span<const std::byte> bytes) {
    return number(static_cast<std::uint32_t>(bytes.size())).raw(bytes);
  }
  Writer& text(std::string_view text) { return blob(as_bytes(text)); }

  const Bytes& bytes() const { return buffer_; }
  Bytes take() { return std::move(buffer_); }

 private:
  Bytes buffer_;
};

/// Reads past the end give zeros and empty values, and make good() false for ever after.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T number() {
    const auto bytes = raw(sizeof(T));
    T value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(bytes[i]) << (8 * i)));
    return value;
  }
  std::span<const std::byte> raw(std::size_t count) {
    if (count > rest_.size()) {
      good_ = false;
      rest_ = {};
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  /// A length-prefixed blob of at most `limit` bytes; anything longer turns the reader bad before it is
  /// touched.
  std::span<const std::byte> blob(std::size_t limit) {
    const auto length = number<std::uint32_t>();
    if (length > limit) {
      good_ = false;
      rest_ = {};
      return {};
    }
    return raw(length);
  }
  std::string text(std::size_t limit) {
    const auto bytes = blob(limit);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  bool good() const { return good_; }
  /// All bytes were read and none were missing.
  bool finished() const { return good_ && rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  bool good_ = true;
};

}  // namespace rondel::wire
