// SPDX-License-Identifier: Apache-2.0
#include "ring/collective.h"

#include <cstring>

#include "lib/reduce.h"
#include "ring/label.h"

namespace rondel {

void Collective::begin(const Schedule& schedule, const Binding& binding) {
  schedule_ = &schedule;
  binding_ = binding;
  // All averages but those of 16-bit floats are sums until the owner divides.
  fold_op_ = binding.op == ReduceOp::average && !is_half(binding.type) ? ReduceOp::sum : binding.op;
  posted_ = retired_ = finished_moves_ = 0;
  const std::size_t completions = std::size_t{schedule.steps_in_flight} * schedule.moves_per_step;
  if (completions_.size() < completions) completions_.resize(completions);
}

Completion& Collective::completion(std::uint32_t step, std::uint32_t move) {
  return completions_[std::size_t{step % schedule_->steps_in_flight} * schedule_->moves_per_step + move];
}

Status Collective::advance() {
  const auto steps = static_cast<std::uint32_t>(schedule_->steps.size());
  for (;;) {
    while (retired_ < posted_ && oldest_step_done()) retire_oldest_step();
    if (posted_ == steps || retired_ < schedule_->steps[posted_].after) return {};
    RONDEL_TRY(post_next_step());
  }
}

bool Collective::oldest_step_done() {
  const std::uint32_t moves = schedule_->steps[retired_].moves.count;
  while (finished_moves_ < moves && completion(retired_, finished_moves_).done()) ++finished_moves_;
  return finished_moves_ == moves;
}

void Collective::retire_oldest_step() {
  const Run local = schedule_->steps[retired_].local;
  for (std::uint32_t i = 0; i < local.count; ++i) run_local(schedule_->local[local.first + i]);
  ++retired_;
  finished_moves_ = 0;
}

Status Collective::post_next_step() {
  const Step& step = schedule_->steps[posted_];
  if (step.moves.count > 0) {
    build_works(step);
    RONDEL_TRY(endpoint_->post(works_, {}));
  }
  ++posted_;
  return {};
}

void Collective::build_works(const Step& step) {
  slices_.clear();
  works_.clear();
  std::size_t slices = 0;
  for (std::uint32_t i = 0; i < step.moves.count; ++i) {
    const Move& move = schedule_->moves[step.moves.first + i];
    slices += move.local.count + move.other.count;
  }
  slices_.reserve(slices);  // works point into it
  for (std::uint32_t i = 0; i < step.moves.count; ++i) {
    const Move& move = schedule_->moves[step.moves.first + i];
    const std::size_t first = slices_.size();
    add_slices(move.local);
    add_slices(move.other);
    const std::span<const Slice> both(slices_.data() + first, slices_.size() - first);
    Completion& done = completion(posted_, i);
    done.arm(1);
    Work& work = works_.emplace_back();
    work.verb = move.verb;
    work.peer = move.peer;
    work.local = both.first(move.local.count);
    work.other = both.subspan(move.local.count);
    work.reduction = {binding_.type, fold_op_, move.incoming_share, move.incoming_first};
    work.label = label_of(move);
    work.done = &done;
  }
}

void Collective::add_slices(Run run) {
  for (const Extent& extent : schedule_->view(run)) {
    const auto place = static_cast<std::size_t>(extent.place);
    slices_.push_back({binding_.memory[place], binding_.offset[place] + extent.offset, extent.bytes});
  }
}

Label Collective::label_of(const Move& move) const {
  if (!move.pair_token) return binding_.label;
  const auto counts = move.verb == Verb::send ? binding_.sent_counts : binding_.received_counts;
  return make_pair_label(binding_.label, counts[static_cast<std::size_t>(move.peer)]);
}

std::byte* Collective::address_of(const Extent& extent) const {
  const auto place = static_cast<std::size_t>(extent.place);
  return binding_.memory[place]->memory().data + binding_.offset[place] + extent.offset;
}

void Collective::run_local(const LocalWork& work) {
  std::byte* destination = address_of(work.destination);
  const std::size_t elements = work.destination.bytes / size_of(binding_.type);
  switch (work.kind) {
    case LocalWork::Kind::copy:
      std::memcpy(destination, address_of(schedule_->extents[work.sources.first]), work.destination.bytes);
      return;
    case LocalWork::Kind::divide:
      divide(binding_.type, destination, elements, static_cast<std::uint64_t>(binding_.size));
      return;
    case LocalWork::Kind::fold:
      fold(binding_.type, fold_op_, destination, address_of(schedule_->extents[work.sources.first]),
           address_of(schedule_->extents[work.sources.first + 1]), elements);
      return;
    case LocalWork::Kind::fold_many:
      sources_.clear();
      for (const Extent& extent : schedule_->view(work.sources)) sources_.push_back(address_of(extent));
      fold_many(binding_.type, binding_.op, destination, sources_, elements);
      return;
  }
}

Rank Collective::waiting_for() const {
  if (done() || retired_ == posted_) return kNoRank;
  const Run moves = schedule_->steps[retired_].moves;
  return finished_moves_ < moves.count ? schedule_->moves[moves.first + finished_moves_].peer : kNoRank;
}

}  // namespace rondel
