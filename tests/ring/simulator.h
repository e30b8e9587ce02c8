// SPDX-License-Identifier: Apache-2.0
// Runs the schedules of all ranks of one collective in one thread, by passing messages between plain buffers
// in a random order, and watches for everything a schedule must never do. Sends finish only when they are
// received, so nothing that passes here relies on buffering.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ring/schedule.h"

namespace rondel::test {

/// Elements are std::uint64_t with wrapping sums, or double with weighted means.
struct Simulation {
  Shape shape;                 // rank is set by the simulator
  std::vector<Shape> by_rank;  // where ranks differ (all_to_all with counts); else empty
  std::uint64_t seed = 1;
  bool means = false;

  struct Outcome {
    std::string fault;                              // empty: the rules held
    std::vector<std::vector<std::uint64_t>> input;  // by rank, after the run
    std::vector<std::vector<std::uint64_t>> output;
    std::vector<std::uint64_t> bytes_sent;
  };
  Shape shape_of(Rank rank) const;
  /// What each rank gets to start with; position and rank both count.
  std::vector<std::uint64_t> input_of(Rank rank) const;
  std::vector<Schedule> schedules() const;
  Outcome run(const std::vector<Schedule>& schedules) const;
  /// The naive answer; empty where the collective says nothing about a rank's output.
  std::vector<std::uint64_t> expected_of(Rank rank) const;
  /// run() and compare: empty when all is well, else what went wrong.
  std::string verdict(const std::vector<Schedule>& schedules) const;
  std::string verdict() const { return verdict(schedules()); }
};

std::string describe(const Shape& shape);

}  // namespace rondel::test
