// SPDX-License-Identifier: Apache-2.0
// Frames: how a byte stream is cut into messages after the handshake. A 32-bit little-endian length, then
// that many bytes. Pure; one thread per object. Holds at most one frame's bytes beyond what was added last,
// and nothing for a length over the limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/memory.h"
#include "lib/status.h"
#include "lib/wire.h"

namespace rondel {

inline Bytes framed(std::span<const std::byte> body) { return wire::Writer().blob(body).take(); }

class FrameReader {
 public:
  explicit FrameReader(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  void add(std::span<const std::byte> received) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    buffer_.insert(buffer_.end(), received.begin(), received.end());
  }

  /// The next whole body, or none yet. A length over the limit is final: the stream can not be followed any
  /// more.
  Result<std::optional<Bytes>> next() {
    const auto body = next_in_place();
    if (!body.ok()) return body.status();
    if (!*body) return std::optional<Bytes>();
    return std::optional<Bytes>(Bytes((*body)->begin(), (*body)->end()));
  }
  /// The same without a copy: valid until more is added.
  Result<std::optional<std::span<const std::byte>>> next_in_place() {
    using Body = std::optional<std::span<const std::byte>>;
    const auto rest = std::span<const std::byte>(buffer_).subspan(taken_);
    wire::Reader reader(rest);
    const auto length = reader.number<std::uint32_t>();
    if (!reader.good()) return Body();
    if (length > limit_bytes_)
      return Status(Code::refused, "a frame of " + std::to_string(length) + " bytes is over the limit of " +
                                       std::to_string(limit_bytes_));
    const auto body = reader.raw(length);
    if (!reader.good()) return Body();
    taken_ += sizeof(length) + length;
    return Body(body);
  }

 private:
  const std::size_t limit_bytes_;
  std::size_t taken_ = 0;  // bytes of the buffer that were given out
  Bytes buffer_;
};

}  // namespace rondel
