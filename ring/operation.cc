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

Result<Operation::Known> Operation::make_known(const KnownMemory& known, const void* data,
                                               std::uint64_t bytes) {
  if (bytes == 0) return Known{};
  if (const Slice found = known.find(data, bytes); found.region != nullptr) return Known{found, nullptr};
  auto made = known.prepare({static_cast<std::byte*>(const_cast<void*>(data)), bytes, MemoryKind::host});
  RONDEL_TRY(made);
  const Slice whole{made->get(), 0, bytes};
  return Known{whole, std::move(made).value()};
}

Status Operation::bind(const KnownMemory& known, const Registration* scratch) {
  auto input = make_known(known, request.input, footprint.input_bytes);
  RONDEL_TRY(input);
  auto output = make_known(known, request.output, footprint.output_bytes);
  RONDEL_TRY(output);
  input_ = std::move(input).value();
  output_ = std::move(output).value();
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
