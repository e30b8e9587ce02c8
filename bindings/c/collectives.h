// SPDX-License-Identifier: Apache-2.0
// C arguments checked and put into a CollectiveRequest; shared by the blocking and the non-blocking calls.
// Pure.
#pragma once

#include "bindings/c/comm.h"
#include "ring/request.h"

namespace rondel::c {

/// The arguments of any collective as they came from C; a counts pointer, where a call takes one, has an
/// entry per rank.
struct Arguments {
  CollectiveKind kind = CollectiveKind::barrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;
  int type = RONDEL_FLOAT32;  // a rondel_dtype_t, unless the caller is wrong
  int op = RONDEL_SUM;        // a rondel_op_t, likewise
  std::int32_t root = 0;
  bool has_counts = false;
  const std::uint64_t* counts = nullptr;
  const std::uint64_t* receive_counts = nullptr;
};

/// invalid_argument for an unknown type or operator, or a missing counts array; what the shape must be is
/// ring's affair. The request points to the caller's counts.
Result<CollectiveRequest> to_request(const Arguments& arguments, Rank size);

}  // namespace rondel::c
