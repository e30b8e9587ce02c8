// SPDX-License-Identifier: Apache-2.0
// Collective: the resumable run of one schedule over one endpoint. advance() posts the steps that may be
// posted and retires those that are done, running their local work; it never waits. Used again and again by
// its owner: after the first runs of a shape nothing is allocated. Driver thread only; what begin() was given
// outlives the run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ring/schedule.h"
#include "transports/endpoint.h"

namespace rondel {

/// What a schedule is run with.
struct Binding {
  const Registration* memory[3] = {nullptr, nullptr, nullptr};  // by Place
  std::size_t offset[3] = {0, 0, 0};                            // where the buffer begins in it
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank size = 1;
  Label label;
  std::span<const std::uint64_t> sent_counts;  // for the labels of pair tokens
  std::span<const std::uint64_t> received_counts;
};

class Collective {
 public:
  /// `endpoint` may be null when no schedule with moves is run.
  explicit Collective(Endpoint* endpoint) : endpoint_(endpoint) {}

  void begin(const Schedule& schedule, const Binding& binding);
  /// Failures are the endpoint's.
  Status advance();
  bool done() const { return schedule_ == nullptr || retired_ == schedule_->steps.size(); }
  /// The peer of the oldest work that has not finished; kNoRank when there is none.
  Rank waiting_for() const;

 private:
  bool oldest_step_done();
  void retire_oldest_step();
  Status post_next_step();
  void build_works(const Step& step);
  void add_slices(Run run);
  Label label_of(const Move& move) const;
  std::byte* address_of(const Extent& extent) const;
  void run_local(const LocalWork& work);
  Completion& completion(std::uint32_t step, std::uint32_t move);

  Endpoint* endpoint_;
  const Schedule* schedule_ = nullptr;
  Binding binding_;
  ReduceOp fold_op_ = ReduceOp::sum;
  std::uint32_t posted_ = 0;
  std::uint32_t retired_ = 0;
  std::uint32_t finished_moves_ = 0;  // of the oldest step, counted from its first
  std::vector<Completion> completions_;
  std::vector<Slice> slices_;
  std::vector<Work> works_;
  std::vector<const void*> sources_;
};

}  // namespace rondel
