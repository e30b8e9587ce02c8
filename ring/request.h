// SPDX-License-Identifier: Apache-2.0
// CollectiveRequest: one call of one collective, as data. The buffers belong to the caller until the
// operation ends. Plain data; knows nothing of how it will be run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

enum class CollectiveKind : std::uint8_t {
  all_reduce,      // output[count] = op over ranks of input[count]
  reduce_scatter,  // output[counts[rank]] = this rank's part of op over ranks of input[sum of counts]
  all_gather,      // output[sum of counts] = concatenation over ranks of input[counts[rank]]
  broadcast,       // output[count] = root's input[count]; elsewhere input is ignored
  reduce,          // root: output[count] = op over ranks of input[count]; elsewhere output is ignored
  gather,          // root: output[sum of counts]; input[counts[rank]]
  scatter,         // root: input[sum of counts]; output[counts[rank]]
  all_to_all,      // output = concatenation over peers p of what p's input holds for this rank
  barrier,
  send,  // input[count] to `root`
  recv   // output[count] from `root`
};

std::string_view name_of(CollectiveKind kind);

/// What a collective is made for: a call that names it, or a larger one that is built on it. Ranks that
/// differ in this do not mean the same, whatever else is equal.
enum class Purpose : std::uint8_t { itself, split, finalize };

/// Counts are elements. `counts`, where used, has one entry per rank and is the same on every rank
/// (all_gather, reduce_scatter, gather, scatter); for all_to_all `counts` is what this rank sends to each and
/// `receive_counts` what it receives from each. Empty counts: every rank has `count`. In place: all_reduce,
/// broadcast, reduce: output == input. reduce_scatter: output == input + own offset. all_gather: input ==
/// output + own offset. gather and scatter at the root likewise. all_to_all: never.
struct CollectiveRequest {
  CollectiveKind kind = CollectiveKind::barrier;
  Purpose purpose = Purpose::itself;
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;
  std::span<const std::uint64_t> counts;
  std::span<const std::uint64_t> receive_counts;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;  // also the peer of send and recv
};

/// "allreduce of 1024 float32 sum", for error texts.
std::string describe(const CollectiveRequest& request);
/// The same with its number on its communicator: "allreduce #17 of 1024 float32 sum".
std::string describe(const CollectiveRequest& request, std::uint64_t sequence);

/// Bytes behind `input` and `output` that the operation touches on one rank, and whether they are one buffer.
struct Footprint {
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  bool in_place = false;
};

/// What rank `rank` of `size` may be asked to do: invalid_argument and unsupported name the argument, what
/// was found and what was wanted.
Result<Footprint> check_request(const CollectiveRequest& request, Rank rank, Rank size);

constexpr bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::reduce;
}
constexpr bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce ||
         kind == CollectiveKind::gather || kind == CollectiveKind::scatter;
}
constexpr bool point_to_point(CollectiveKind kind) {
  return kind == CollectiveKind::send || kind == CollectiveKind::recv;
}

}  // namespace rondel
