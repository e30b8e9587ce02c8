// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/registration_cache.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <utility>

#include "lib/log.h"

namespace rondel::verbs {
namespace {

// Memory that was taken away so often is better registered for each operation.
constexpr std::uint32_t kMostLosses = 3;

bool holds(const MemorySpan& outer, const MemorySpan& inner) {
  const auto begin = reinterpret_cast<std::uintptr_t>(outer.data);
  const auto at = reinterpret_cast<std::uintptr_t>(inner.data);
  return at >= begin && inner.bytes <= outer.bytes && at - begin <= outer.bytes - inner.bytes;
}

/// All caches of the process. Never destroyed, because a program may fork at its very end.
struct Caches {
  std::mutex mutex;
  std::vector<RegistrationCache*> all;
};
Caches& caches() {
  static Caches* const caches = new Caches;
  return *caches;
}

// The kernel copies what is pinned for a child, page by page, in the midst of fork(): a data loader's workers
// would each get a copy of all that is kept. It waits for no lock: the forking thread itself may have one.
void before_fork() {
  const std::unique_lock lock(caches().mutex, std::try_to_lock);
  if (!lock) return;
  for (RegistrationCache* const cache : caches().all) cache->let_go_of_idle();
}

// Those of its parent are not a child's to change, and who had the lock is not there.
void in_child() { ::new (static_cast<void*>(&caches())) Caches; }

}  // namespace

RegistrationCache::RegistrationCache(std::shared_ptr<Device> device, bool keeps_other)
    : device_(std::move(device)), keeps_other_(keeps_other), departures_(SharedMemory::departures()) {
  const std::scoped_lock lock(caches().mutex);
  static const bool prepared = ::pthread_atfork(before_fork, nullptr, in_child) == 0;
  keeps_other_ &= prepared;
  caches().all.push_back(this);
}

RegistrationCache::~RegistrationCache() {
  const std::scoped_lock lock(caches().mutex);
  std::erase(caches().all, this);
}

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
  if (watch_ == nullptr) return;
  const std::uint64_t changes = watch_->changes();
  if (std::exchange(changes_, changes) == changes) return;
  std::erase_if(entries_, [this](const Entry& entry) {
    if (entry.region != 0 || !entry.watched.changed()) return false;
    if (Seen* const seen = find_seen(entry.span)) ++seen->losses;
    return true;
  });
}

void RegistrationCache::let_go_of_idle() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  std::erase_if(entries_,
                [](const Entry& entry) { return entry.region == 0 && entry.memory.use_count() == 1; });
}

// What is kept for later gives way to what is needed now.
RegistrationCache::Pinned RegistrationCache::pin(MemorySpan memory) {
  auto pinned = DeviceMemory::create(device_, memory);
  if (pinned.status().code() == Code::out_of_resources &&
      std::erase_if(entries_, [](const Entry& entry) { return entry.memory.use_count() == 1; }) > 0)
    pinned = DeviceMemory::create(device_, memory);
  RONDEL_TRY(pinned);
  return std::make_shared<const DeviceMemory>(*std::move(pinned));
}

void RegistrationCache::keep(Entry entry) {
  if (entries_.size() == kMost)
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; }));
  entry.last_use = ++uses_;
  entries_.push_back(std::move(entry));
}

RegistrationCache::Pinned RegistrationCache::find_or_register(MemorySpan memory) {
  const std::scoped_lock lock(mutex_);
  forget_departed_locked();
  if (memory.bytes == 0) return pin(memory);
  const auto place = SharedMemory::find(memory.data, memory.bytes);
  return place ? find_or_pin_region(memory, *place) : find_or_pin_other(memory);
}

RegistrationCache::Pinned RegistrationCache::find_or_pin_region(MemorySpan memory,
                                                                const SharedMemory::Place& place) {
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&place](const Entry& entry) { return entry.region == place.id; });
  if (known != entries_.end()) {
    known->last_use = ++uses_;
    return known->memory;
  }
  const MemorySpan region{memory.data - place.offset, place.bytes, MemoryKind::host};
  auto whole = pin(region);
  // A region may be more than can be locked where the part that is used is not.
  if (!whole.ok()) return pin(memory);
  keep({.region = place.id, .span = region, .memory = *whole});
  return whole;
}

RegistrationCache::Pinned RegistrationCache::find_or_pin_other(MemorySpan memory) {
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&memory](const Entry& entry) {
    return entry.region == 0 && holds(entry.span, memory);
  });
  if (known != entries_.end() && known->watched.intact()) {
    known->last_use = ++uses_;
    return known->memory;
  }
  // What changes just now is forgotten at the next look, if it is this memory at all.
  if (known != entries_.end() || !keeps_other_) return pin(memory);
  Seen* const seen = find_seen(memory);
  // Watching costs more than registering once more, which is all that memory needs that is used once.
  if (seen == nullptr) seen_[next_seen_++ % kMost] = {.span = memory};
  const bool worth_it = seen != nullptr && !seen->stays_so && seen->losses < kMostLosses;
  return worth_it ? pin_watched(memory, *seen) : pin(memory);
}

// Watched from before it is pinned, so that no change is missed. What could only be sent from may be writable
// when it is used the next time.
RegistrationCache::Pinned RegistrationCache::pin_watched(MemorySpan memory, Seen& seen) {
  const auto& watching = watch();
  if (watching == nullptr) return pin(memory);
  auto watched = MappingWatch::begin(watching, memory.data, memory.bytes);
  seen.stays_so = !watched;
  auto pinned = pin(memory);
  if (pinned.ok() && watched && (*pinned)->writable())
    keep({.region = 0, .span = memory, .watched = std::move(watched), .memory = *pinned});
  return pinned;
}

RegistrationCache::Seen* RegistrationCache::find_seen(const MemorySpan& memory) {
  const auto before = std::find_if(seen_.begin(), seen_.end(),
                                   [&memory](const Seen& seen) { return holds(seen.span, memory); });
  return before == seen_.end() ? nullptr : &*before;
}

// Null, and not tried again, where the process may not watch its memory.
const std::shared_ptr<MappingWatch>& RegistrationCache::watch() {
  if (watch_ != nullptr) return watch_;
  auto watching = MappingWatch::of_process();
  if (watching.ok())
    watch_ = *std::move(watching);
  else
    log(LogLevel::info, "memory that is not of rondel_alloc is registered for each operation: {}",
        watching.status().text());
  keeps_other_ = watch_ != nullptr;
  return watch_;
}

}  // namespace rondel::verbs
