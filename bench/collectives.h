// SPDX-License-Identifier: Apache-2.0
// The table of what rondel-bench can run: for each collective its call, its buffers, what must come out of
// it, and the factor that turns algorithm bandwidth into bus bandwidth (as nccl-tests defines it). Immutable,
// any thread.
#pragma once

#include <rondel.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/status.h"
#include "lib/types.h"

namespace rondel::bench {

/// Where this rank stands and how many elements belong to each rank's part.
struct Shape {
  Rank rank = 0;
  Rank ranks = 1;
  Rank root = 0;
  std::size_t count = 0;
};

/// `elements` from `output_first` on must equal elements [source_first, ...) of `source`'s input, or of the
/// reduction over all ranks when `source` is kNoRank.
struct ExpectedPart {
  std::size_t output_first, elements;
  Rank source;
  std::size_t source_first;
};

/// A rank's buffers in elements. In place both lie in one buffer, at the two offsets.
struct Layout {
  std::size_t input_elements = 0, output_elements = 0;
  std::size_t input_offset = 0, output_offset = 0;
  std::vector<ExpectedPart> expected;
};

struct Call {
  rondel_comm_t comm;
  Shape shape;
  const void* input;
  void* output;
  DataType type;
  ReduceOp op;
};

struct Collective {
  std::string_view name;
  bool reduces, has_root, has_data;
  bool in_place;  // can run in place at all
  bool parts;     // the size printed is that of all ranks' parts together
  Rank least_ranks;
  Layout (*layout)(const Shape& shape);
  rondel_status_t (*run)(const Call& call);
  double (*bus_factor)(double ranks);
};

std::span<const Collective> collectives();
/// "allreduce, reduce_scatter, ..."
std::string collective_names();
/// By name; underscores and hyphens do not matter. The failure lists the names.
Result<const Collective*> find_collective(std::string_view name);

}  // namespace rondel::bench
