// SPDX-License-Identifier: Apache-2.0
// What kind of memory a buffer is in, and the stream that orders work on it. Plain data, any thread; owns
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rondel {

using Bytes = std::vector<std::byte>;

enum class MemoryKind : std::uint8_t { host, cuda };

/// A range of memory that somebody else owns.
struct MemorySpan {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::host;
};

/// A device stream (cudaStream_t); null on host memory.
struct StreamRef {
  void* handle = nullptr;
};

}  // namespace rondel
