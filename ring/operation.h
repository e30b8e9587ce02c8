// SPDX-License-Identifier: Apache-2.0
// Operation: one call from its start to its end: what was asked, how it is run, and how it ended. Owned by
// its communicator, driver thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/deadline.h"
#include "lib/status.h"
#include "ring/collective.h"
#include "ring/known_memory.h"
#include "ring/planner.h"
#include "ring/request.h"

namespace rondel {

class Operation {
 public:
  /// `request`'s counts stay the caller's until the operation ends, unless keep_counts() is called.
  void begin(const CollectiveRequest& request, const Footprint& footprint, std::chrono::nanoseconds limit);
  void keep_counts();

  /// Makes the buffers known to the endpoint behind `known`, unless the user has done so.
  Status bind(KnownMemory& known, const Registration* scratch);
  Binding binding(Rank size) const;
  /// The buffer of a send or a recv, once it is bound.
  const Slice& lent() const { return input_.slice.bytes > 0 ? input_.slice : output_.slice; }
  /// The limit after this was first asked: what is done before anybody waits costs no look at the clock.
  Deadline deadline();
  void finish(Status status);

  CollectiveRequest request;
  Footprint footprint;
  std::shared_ptr<const Plan> plan;  // null where loads and stores, or a pair, do without one
  Completion moved;                  // of a send or a recv, once it is posted
  std::uint64_t sequence = 0;
  std::uint64_t entered = 0;       // the same for liveness: collectives only
  std::uint64_t bytes_before = 0;  // that its endpoint had received when it began
  Label label;
  bool done = false;
  Status status;

 private:
  /// A buffer as the endpoint knows it.
  struct Known {
    Slice slice;                          // without a region when there is nothing to know
    std::unique_ptr<Registration> owned;  // when it was made for this operation
    Status make(KnownMemory& known, const void* data, std::uint64_t bytes);
  };

  std::chrono::nanoseconds limit_{};
  std::optional<Deadline> deadline_;
  Known input_;
  Known output_;
  const Registration* scratch_ = nullptr;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> receive_counts_;
};

}  // namespace rondel
