// SPDX-License-Identifier: Apache-2.0
// Runner: verifies and times one collective at one size, out of place and in place. Owns the buffers; every
// rank of the communicator calls it with the same sizes. One thread. Does not print.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/collectives.h"
#include "bench/communicator.h"
#include "bench/measurement.h"
#include "bench/options.h"
#include "bench/pattern.h"
#include "lib/status.h"

namespace rondel::bench {

class Runner {
 public:
  /// Allocates for the largest size of the sweep. `comm` and `options` must outlive the runner.
  static Result<Runner> create(Communicator& comm, const Options& options);

  /// Elements of each rank's part for each row; a size smaller than one element per part becomes that.
  static std::vector<std::size_t> counts(const Options& options, Rank ranks);

  Result<Row> run(std::size_t count);

 private:
  enum class Placement { out_of_place, in_place };

  Runner(Communicator& comm, const Options& options, Buffer first, Buffer second);
  Result<Measurement> measure(Placement placement, std::size_t size_bytes);
  Status verify(Placement placement, std::int64_t& wrong);
  void prepare(Placement placement, const Pattern& pattern);
  void spoil_last_element(std::byte* output) const;
  std::int64_t count_wrong(const Pattern& pattern, Placement placement) const;
  Result<int> warm_up(Placement placement, std::size_t size_bytes);
  /// Also finds what an iteration took.
  Result<std::vector<double>> time(Placement placement, int iterations, Effort& effort);
  Status call(Placement placement);

  std::byte* input(Placement placement) const;
  std::byte* output(Placement placement) const;
  std::size_t bytes_of(std::size_t elements) const { return elements * element_bytes_; }
  Pattern pattern(std::uint32_t seed) const;

  Communicator& comm_;
  const Options& options_;
  Buffer first_, second_;
  std::size_t element_bytes_;
  Shape shape_;
  Layout layout_;
};

/// The bytes that a row is named after: all parts together where the collective deals in parts.
std::size_t size_bytes_of(const Options& options, Rank ranks, std::size_t count);

}  // namespace rondel::bench
