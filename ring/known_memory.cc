// SPDX-License-Identifier: Apache-2.0
#include "ring/known_memory.h"

#include <utility>

namespace rondel {

Status KnownMemory::add(std::uint64_t id, MemorySpan memory) {
  auto registration = prepare(memory);
  RONDEL_TRY(registration);
  entries_.push_back({id, std::move(registration).value()});
  return {};
}

void KnownMemory::remove(std::uint64_t id) {
  std::erase_if(entries_, [id](const Entry& entry) { return entry.id == id; });
}

Slice KnownMemory::find(const void* data, std::uint64_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (const Entry& entry : entries_) {
    const MemorySpan& memory = entry.registration->memory();
    const auto base = reinterpret_cast<std::uintptr_t>(memory.data);
    if (begin >= base && bytes <= memory.bytes && begin - base <= memory.bytes - bytes)
      return {entry.registration.get(), begin - base, bytes};
  }
  return {};
}

Result<std::unique_ptr<Registration>> KnownMemory::prepare(MemorySpan memory) const {
  if (endpoint_ == nullptr) return std::make_unique<Registration>(memory);
  return endpoint_->register_memory(memory);
}

}  // namespace rondel
