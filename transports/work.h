// SPDX-License-Identifier: Apache-2.0
// What an endpoint is asked to do, as plain data: move these bytes to or from that peer, and fold them if
// asked. The caller owns everything a Work points to, from post to finish. Driver thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/check.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

/// Memory that an endpoint has been told about. Deregistered when destroyed; outlived by its endpoint.
class Registration {
 public:
  explicit Registration(MemorySpan memory) : memory_(memory) {}
  virtual ~Registration() = default;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  const MemorySpan& memory() const { return memory_; }

 private:
  const MemorySpan memory_;
};

/// A range of registered memory.
struct Slice {
  const Registration* region = nullptr;
  std::size_t offset = 0;
  std::size_t bytes = 0;

  std::byte* data() const { return region->memory().data + offset; }
};

/// destination = op(other, incoming), element by element, with lib's kernels.
struct Reduction {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  /// average of 16-bit floats: which share of the contributions so far is in `incoming`.
  float incoming_share = 0.5F;
  /// Operand order, which decides the payload of a NaN: op(incoming, other) when true.
  bool incoming_first = false;
};

enum class Verb : std::uint8_t { send, recv, recv_reduce };

/// A caller-owned countdown over the works that name it. Finishes only inside Endpoint::progress or abort.
class Completion {
 public:
  void arm(std::uint32_t works) {
    pending_ = works;
    code_ = Code::ok;
  }
  void finish(Code code) noexcept {
    check(pending_ > 0, "a work finishes once");
    --pending_;
    if (code_ == Code::ok) code_ = code;
  }
  bool done() const { return pending_ == 0; }
  Code code() const { return code_; }

 private:
  std::uint32_t pending_ = 0;
  Code code_ = Code::ok;
};

/// Rides with a work so that both ends can tell whether they mean the same one; compared whole, never
/// interpreted by an endpoint. Two ranks that pair works with different labels get Code::mismatch and both
/// labels.
struct Label {
  std::uint64_t words[2] = {0, 0};
  bool operator==(const Label&) const = default;
};

struct Work {
  Verb verb = Verb::send;
  Rank peer = kNoRank;
  std::span<const Slice> local;  ///< source of a send, destination of a recv or recv_reduce
  std::span<const Slice> other;  ///< recv_reduce: the first operand, same total bytes; empty: `local` itself
  Reduction reduction;           ///< recv_reduce only
  Label label;
  Completion* done = nullptr;
};

constexpr std::size_t total_bytes(std::span<const Slice> slices) {
  std::size_t bytes = 0;
  for (const Slice& slice : slices) bytes += slice.bytes;
  return bytes;
}

}  // namespace rondel
