// SPDX-License-Identifier: Apache-2.0
// The command line of rondel-bench: nccl-tests' flags with nccl-tests' meanings. Pure; prints nothing, ends
// nothing: what is to be said goes back to main.
#pragma once

#include <string>
#include <variant>

#include "bench/collectives.h"
#include "bench/sweep.h"
#include "lib/types.h"

namespace rondel::bench {

inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitWrongData = 3;

struct Options {
  const Collective* collective = nullptr;
  Sweep sweep;
  int checks = 1;  // verified runs per size
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;
  std::string json_file;      // empty: none
  bool plain_memory = false;  // malloc's instead of rondel_alloc's
  bool counters = false;      // shows what each size took of the transport
  bool corrupt = false;       // spoils one element before it is verified; for tests
};

/// Why no benchmark is to be run: help was asked for (code 0) or the command line is wrong (kExitUsage).
struct NothingToRun {
  int code;
  std::string text;
};

std::variant<Options, NothingToRun> parse_options(int argc, const char* const* argv);

}  // namespace rondel::bench
