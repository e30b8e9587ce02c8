// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/registration_cache.h"

#include <algorithm>
#include <utility>

namespace rondel::verbs {

std::size_t RegistrationCache::size() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

void RegistrationCache::forget_departed() {
  const std::scoped_lock lock(mutex_);
  forget_departed_locked();
}

void RegistrationCache::forget_departed_locked() {
  for (const std::uint64_t gone : SharedMemory::departed_since(departures_))
    std::erase_if(entries_, [gone](const Entry& entry) { return entry.region == gone; });
}

// What is kept for later gives way to what is needed now.
Result<std::shared_ptr<const DeviceMemory>> RegistrationCache::pin(MemorySpan memory) {
  auto pinned = DeviceMemory::create(device_, memory);
  if (pinned.status().code() == Code::out_of_resources &&
      std::erase_if(entries_, [](const Entry& entry) { return entry.memory.use_count() == 1; }) > 0)
    pinned = DeviceMemory::create(device_, memory);
  RONDEL_TRY(pinned);
  return std::make_shared<const DeviceMemory>(*std::move(pinned));
}

Result<std::shared_ptr<const DeviceMemory>> RegistrationCache::find_or_register(MemorySpan memory) {
  const std::scoped_lock lock(mutex_);
  forget_departed_locked();
  const auto place = SharedMemory::find(memory.data, memory.bytes);
  if (!place) return pin(memory);
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&place](const Entry& entry) { return entry.region == place->id; });
  if (known != entries_.end()) {
    known->last_use = ++uses_;
    return known->memory;
  }
  auto whole = pin({memory.data - place->offset, place->bytes, MemoryKind::host});
  // A region may be more than can be locked where the part that is used is not.
  if (!whole.ok()) return pin(memory);
  if (entries_.size() == kMost)
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; }));
  entries_.push_back({place->id, ++uses_, *whole});
  return whole;
}

}  // namespace rondel::verbs
