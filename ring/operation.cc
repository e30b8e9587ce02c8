// SPDX-License-Identifier: Apache-2.0
#include "ring/operation.h"

#include <utility>

namespace rondel {

void Operation::begin(const CollectiveRequest& asked, const Footprint& touched,
                      std::chrono::nanoseconds limit) {
  request = asked;
  footprint = touched;
  plan.reset();
  limit_ = limit;
  deadline_.reset();
  done = false;
  status = Status();
}

void Operation::keep_counts() {
  counts_.assign(request.counts.begin(), request.counts.end());
  receive_counts_.assign(request.receive_counts.begin(), request.receive_counts.end());
  request.counts = counts_;
  request.receive_counts = receive_counts_;
}

Deadline Operation::deadline() {
  if (!deadline_) deadline_ = Deadline::in(limit_);
  return *deadline_;
}

Status Operation::Known::make(KnownMemory& known, const void* data, std::uint64_t bytes) {
  if (bytes == 0) return {};
  slice = known.find(data, bytes);
  if (slice.region != nullptr) return {};
  auto made = known.prepare({static_cast<std::byte*>(const_cast<void*>(data)), bytes, MemoryKind::host});
  RONDEL_TRY(made);
  owned = std::move(made).value();
  slice = {owned.get(), 0, bytes};
  return {};
}

Status Operation::bind(KnownMemory& known, const Registration* scratch) {
  RONDEL_TRY(input_.make(known, request.input, footprint.input_bytes));
  RONDEL_TRY(output_.make(known, request.output, footprint.output_bytes));
  scratch_ = scratch;
  return {};
}

Binding Operation::binding(Rank size) const {
  Binding binding;
  binding.memory[static_cast<std::size_t>(Place::input)] = input_.slice.region;
  binding.offset[static_cast<std::size_t>(Place::input)] = input_.slice.offset;
  binding.memory[static_cast<std::size_t>(Place::output)] = output_.slice.region;
  binding.offset[static_cast<std::size_t>(Place::output)] = output_.slice.offset;
  binding.memory[static_cast<std::size_t>(Place::scratch)] = scratch_;
  binding.type = request.type;
  binding.op = request.op;
  binding.size = size;
  binding.label = label;
  binding.sent_counts = request.counts;
  binding.received_counts = request.receive_counts;
  return binding;
}

void Operation::finish(Status ended) {
  status = std::move(ended);
  input_ = {};
  output_ = {};
  plan.reset();
  done = true;
}

}  // namespace rondel
