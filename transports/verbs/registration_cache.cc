// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/registration_cache.h"

#include <algorithm>
#include <utility>

namespace rondel::verbs {

void RegistrationCache::forget_departed() {
  for (const std::uint64_t gone : SharedMemory::departed_since(departures_))
    std::erase_if(entries_, [gone](const Entry& entry) { return entry.region == gone; });
}

Result<std::shared_ptr<const DeviceMemory>> RegistrationCache::find_or_register(MemorySpan memory) {
  forget_departed();
  const auto place = SharedMemory::find(memory.data, memory.bytes);
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&place](const Entry& entry) {
    return place && entry.region == place->id;
  });
  if (known != entries_.end()) {
    known->last_use = ++uses_;
    return known->memory;
  }
  if (place) {
    const MemorySpan region{static_cast<std::byte*>(memory.data) - place->offset, place->bytes,
                            MemoryKind::host};
    auto whole = DeviceMemory::create(device_, region);
    // A region may be more than can be locked where the part that is used is not.
    if (whole.ok()) {
      if (entries_.size() == kMost)
        entries_.erase(std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
          return a.last_use < b.last_use;
        }));
      entries_.push_back({place->id, ++uses_, std::make_shared<const DeviceMemory>(*std::move(whole))});
      return entries_.back().memory;
    }
  }
  auto registered = DeviceMemory::create(device_, memory);
  RONDEL_TRY(registered);
  return std::make_shared<const DeviceMemory>(*std::move(registered));
}

}  // namespace rondel::verbs
