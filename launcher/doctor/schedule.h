// SPDX-License-Identifier: Apache-2.0
// Which pairs of hosts are measured, in which order, and for how long: one after the other, so that they do
// not disturb each other, and within a bound that does not grow with the hosts. Pure; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace rondel::doctor {

struct Schedule {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  ///< from, to
  std::chrono::milliseconds each{};                        ///< of bulk for each pair
  std::size_t left_out = 0;
};

/// `reaches[from][to]`. Neighbours in the order of the hosts come first, as those talk to each other most in
/// a job, then their ways back, then those farther apart. About `budget` in all.
Schedule make_schedule(const std::vector<std::vector<bool>>& reaches, std::chrono::milliseconds budget);

}  // namespace rondel::doctor
