// SPDX-License-Identifier: Apache-2.0
#include "transports/batch.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondel {

namespace {

Status validate_slices(std::span<const Slice> slices, const Capabilities& capabilities) {
  if (slices.size() > capabilities.max_slices)
    return {Code::invalid_argument,
            fmt::format("{} slices, the transport takes {}", slices.size(), capabilities.max_slices)};
  for (const Slice& slice : slices) {
    if (slice.region == nullptr) return {Code::invalid_argument, "a slice has no registered region"};
    const MemorySpan& memory = slice.region->memory();
    if (slice.offset > memory.bytes || slice.bytes > memory.bytes - slice.offset)
      return {Code::invalid_argument,
              fmt::format("a slice of {} bytes at offset {} leaves its region of {} bytes", slice.bytes,
                          slice.offset, memory.bytes)};
    const bool reachable =
        memory.kind == MemoryKind::cuda ? capabilities.cuda_memory : capabilities.host_memory;
    if (!reachable) return {Code::unsupported, "a slice lies in memory that the transport can not reach"};
  }
  return {};
}

Status validate_reduction(const Work& work) {
  const Reduction& reduction = work.reduction;
  if (!supports(reduction.type, reduction.op))
    return {Code::invalid_argument,
            fmt::format("{} has no operator {}", name_of(reduction.type), name_of(reduction.op))};
  const std::size_t bytes = total_bytes(work.local);
  if (bytes % size_of(reduction.type) != 0)
    return {Code::invalid_argument,
            fmt::format("{} bytes are not whole elements of {}", bytes, name_of(reduction.type))};
  if (!work.other.empty() && total_bytes(work.other) != bytes)
    return {Code::invalid_argument,
            fmt::format("`other` holds {} bytes, `local` {}", total_bytes(work.other), bytes)};
  return {};
}

Status validate_work(const Work& work, const Capabilities& capabilities) {
  if (work.done == nullptr) return {Code::invalid_argument, "no completion"};
  RONDEL_TRY(validate_slices(work.local, capabilities));
  if (work.verb != Verb::recv_reduce) {
    if (!work.other.empty()) return {Code::invalid_argument, "only a recv_reduce has an `other`"};
    return {};
  }
  RONDEL_TRY(validate_slices(work.other, capabilities));
  return validate_reduction(work);
}

}  // namespace

Status validate(std::span<const Work> batch, const Capabilities& capabilities) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Status status = validate_work(batch[i], capabilities);
    if (!status.ok()) return std::move(status).with(fmt::format("work {} of {}", i + 1, batch.size()));
  }
  return {};
}

Status check_room(std::span<const Work> batch, const Work& work, std::optional<std::size_t> room,
                  std::uint32_t max_in_flight) {
  if (!room)
    return Status(Code::invalid_argument,
                  fmt::format("a work names rank {}, which is not connected", work.peer));
  if (*room >= batch.size()) return {};
  const auto before = batch.first(static_cast<std::size_t>(&work - batch.data()));
  const auto same = std::count_if(before.begin(), before.end(), [&work](const Work& other) {
    return other.peer == work.peer && (other.verb == Verb::send) == (work.verb == Verb::send);
  });
  if (static_cast<std::size_t>(same) < *room) return {};
  return Status(Code::invalid_argument, fmt::format("more than {} works are in flight", max_in_flight));
}

}  // namespace rondel
