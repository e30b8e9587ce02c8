// SPDX-License-Identifier: Apache-2.0
// ArrivalWatch: notices when some ranks of a job have joined and others are missing. Programs that never use
// Rondel join nobody, and are never warned of. Pure: what has arrived and the time in, at most one sentence
// out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/deadline.h"
#include "lib/types.h"

namespace rondel {

class ArrivalWatch {
 public:
  using Time = Deadline::Clock::time_point;

  /// `hosts` by rank, to be named too; empty when all ranks share one.
  ArrivalWatch(Rank ranks, std::chrono::milliseconds patience, std::vector<std::string> hosts = {})
      : ranks_(ranks), patience_(patience), hosts_(std::move(hosts)) {}

  /// A sentence that names the missing ranks, once, when `patience` has passed since the first one joined.
  std::optional<std::string> look(std::span<const std::int32_t> arrived, Time now);
  /// The ranks that the sentence names.
  const std::vector<Rank>& named() const { return named_; }
  /// All are there, or the sentence has been said: no further look is needed.
  bool over() const { return over_; }

 private:
  Rank ranks_;
  std::chrono::milliseconds patience_;
  std::vector<std::string> hosts_;
  std::optional<Time> first_seen_;
  std::vector<Rank> named_;
  bool over_ = false;
};

}  // namespace rondel
