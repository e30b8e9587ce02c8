// SPDX-License-Identifier: Apache-2.0
#include "ring/known_memory.h"

#include <utility>

namespace rondel {

Status KnownMemory::add(std::uint64_t id, MemorySpan memory) {
  auto registration = prepare(memory);
  RONDEL_TRY(registration);
  told_.push_back({id, std::move(registration).value()});
  return {};
}

void KnownMemory::remove(std::uint64_t id) {
  std::erase_if(told_, [id](const Entry& entry) { return entry.id == id; });
}

Slice KnownMemory::find(const void* data, std::uint64_t bytes) {
  if (departures_ != SharedMemory::departures()) forget_departed();
  if (const Slice found = find_in(told_, data, bytes); found.region != nullptr) return found;
  if (const Slice found = find_in(kept_, data, bytes); found.region != nullptr) return found;
  return keep_region_of(data, bytes) ? find_in(kept_, data, bytes) : Slice{};
}

Slice KnownMemory::find_in(const std::vector<Entry>& entries, const void* data, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (const Entry& entry : entries) {
    const MemorySpan& memory = entry.registration->memory();
    const auto base = reinterpret_cast<std::uintptr_t>(memory.data);
    if (begin >= base && bytes <= memory.bytes && begin - base <= memory.bytes - bytes)
      return {entry.registration.get(), begin - base, bytes};
  }
  return {};
}

void KnownMemory::forget_departed() {
  for (const std::uint64_t gone : SharedMemory::departed_since(departures_))
    std::erase_if(kept_, [gone](const Entry& entry) { return entry.id == gone; });
}

bool KnownMemory::keep_region_of(const void* data, std::uint64_t bytes) {
  if (endpoint_ == nullptr || !endpoint_->capabilities().holds_memory || kept_.size() == kMostKept)
    return false;
  const auto place = SharedMemory::find(data, bytes);
  if (!place) return false;
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(data)) - place->offset;
  auto whole = prepare({begin, place->bytes, MemoryKind::host});
  // It may be more than can be locked where the part that is used is not.
  if (!whole.ok()) return false;
  kept_.push_back({place->id, std::move(whole).value()});
  return true;
}

Result<std::unique_ptr<Registration>> KnownMemory::prepare(MemorySpan memory) const {
  if (endpoint_ == nullptr) return std::make_unique<Registration>(memory);
  return endpoint_->register_memory(memory);
}

}  // namespace rondel
