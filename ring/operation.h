// SPDX-License-Identifier: Apache-2.0
// Operation: one call from its start to its end: what was asked, how it is run, and how it ended. Owned by
// its communicator, driver thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/deadline.h"
#include "lib/status.h"
#include "ring/collective.h"
#include "ring/planner.h"
#include "ring/request.h"

namespace rondel {

class Operation {
 public:
  /// `request`'s counts stay the caller's until the operation ends, unless keep_counts() is called.
  void begin(const CollectiveRequest& request, const Footprint& footprint, std::shared_ptr<const Plan> plan);
  void keep_counts();

  /// Makes the buffers known to `endpoint`; without one (a single rank) they are only wrapped.
  Status bind(Endpoint* endpoint, const Registration* scratch);
  Binding binding(Rank size) const;
  void finish(Status status);

  CollectiveRequest request;
  Footprint footprint;
  std::shared_ptr<const Plan> plan;
  std::uint64_t sequence = 0;
  std::uint64_t entered = 0;       // the same for liveness: collectives only
  std::uint64_t bytes_before = 0;  // that its endpoint had received when it began
  Deadline deadline = Deadline::at(Deadline::Clock::time_point::max());
  Label label;
  bool done = false;
  Status status;

 private:
  std::unique_ptr<Registration> input_;
  std::unique_ptr<Registration> output_;
  const Registration* scratch_ = nullptr;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> receive_counts_;
};

}  // namespace rondel
