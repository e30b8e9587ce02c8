// SPDX-License-Identifier: Apache-2.0
#include "ring/operation.h"

#include <utility>

namespace rondel {
namespace {

Result<std::unique_ptr<Registration>> make_known(Endpoint* endpoint, const void* data, std::uint64_t bytes) {
  if (bytes == 0) return std::unique_ptr<Registration>();
  const MemorySpan span{static_cast<std::byte*>(const_cast<void*>(data)), bytes, MemoryKind::host};
  if (endpoint == nullptr) return std::make_unique<Registration>(span);
  return endpoint->register_memory(span);
}

}  // namespace

void Operation::begin(const CollectiveRequest& asked, const Footprint& touched,
                      std::shared_ptr<const Plan> made) {
  request = asked;
  footprint = touched;
  plan = std::move(made);
  done = false;
  status = Status();
}

void Operation::keep_counts() {
  counts_.assign(request.counts.begin(), request.counts.end());
  receive_counts_.assign(request.receive_counts.begin(), request.receive_counts.end());
  request.counts = counts_;
  request.receive_counts = receive_counts_;
}

Status Operation::bind(Endpoint* endpoint, const Registration* scratch) {
  auto input = make_known(endpoint, request.input, footprint.input_bytes);
  RONDEL_TRY(input);
  auto output = make_known(endpoint, request.output, footprint.output_bytes);
  RONDEL_TRY(output);
  input_ = std::move(input).value();
  output_ = std::move(output).value();
  scratch_ = scratch;
  return {};
}

Binding Operation::binding(Rank size) const {
  Binding binding;
  binding.memory[static_cast<std::size_t>(Place::input)] = input_.get();
  binding.memory[static_cast<std::size_t>(Place::output)] = output_.get();
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
  input_.reset();
  output_.reset();
  plan.reset();
  done = true;
}

}  // namespace rondel
