// SPDX-License-Identifier: Apache-2.0
#include "lib/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "lib/check.h"
#include "lib/shared_memory.h"

namespace rondel {
namespace {

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

// One memfd, cut into used and free ranges by offset. Free neighbours are always merged.
class Arena::Region {
 public:
  explicit Region(SharedMemory memory) : memory_(std::move(memory)) { free_.emplace(0, memory_.bytes()); }
  // Peers may keep it mapped for long.
  ~Region() { memory_.drop_pages(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  const SharedMemory& memory() const { return memory_; }
  bool contains(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= memory_.data() && byte < memory_.data() + memory_.bytes();
  }
  std::size_t offset_of(const void* address) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) - memory_.data());
  }
  bool unused() const { return used_.empty(); }

  /// First fit; nullptr when no free range is long enough. `bytes` is a multiple of kAlignment.
  std::byte* take(std::size_t bytes) {
    const auto range = std::find_if(free_.begin(), free_.end(),
                                    [bytes](const auto& entry) { return entry.second >= bytes; });
    if (range == free_.end()) return nullptr;
    const auto [offset, length] = *range;
    free_.erase(range);
    if (length > bytes) free_.emplace(offset + bytes, length - bytes);
    used_.emplace(offset, bytes);
    return memory_.data() + offset;
  }

  void give_back(std::size_t offset) {
    const auto taken = used_.find(offset);
    check(taken != used_.end(), "arena: the released buffer is one that was allocated");
    auto entry = free_.emplace(offset, taken->second).first;
    used_.erase(taken);
    const auto next = std::next(entry);
    if (next != free_.end() && entry->first + entry->second == next->first) {
      entry->second += next->second;
      free_.erase(next);
    }
    if (entry == free_.begin()) return;
    const auto previous = std::prev(entry);
    if (previous->first + previous->second != entry->first) return;
    previous->second += entry->second;
    free_.erase(entry);
  }

 private:
  SharedMemory memory_;
  std::map<std::size_t, std::size_t> free_, used_;  // offset -> bytes
};

Arena::Arena(std::size_t initial_bytes) : initial_bytes_(initial_bytes) {}
Arena::~Arena() = default;

Result<std::unique_ptr<Arena>> Arena::create(std::size_t initial_bytes) {
  std::unique_ptr<Arena> arena(new Arena(initial_bytes));
  if (initial_bytes > 0) RONDEL_TRY(arena->add_region(initial_bytes));
  return arena;
}

Status Arena::add_region(std::size_t bytes) {
  auto memory = SharedMemory::create(bytes);
  RONDEL_TRY(memory);
  regions_.push_back(std::make_unique<Region>(std::move(memory).value()));
  return {};
}

Result<MemorySpan> Arena::allocate(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2)
    return Status(Code::invalid_argument, fmt::format("arena: {} bytes are more than any memory", bytes));
  const std::size_t length = rounded_up(std::max<std::size_t>(bytes, 1), kAlignment);
  for (const auto& region : regions_)
    if (std::byte* data = region->take(length)) return MemorySpan{data, bytes, MemoryKind::host};
  RONDEL_TRY(add_region(std::max(length, initial_bytes_)));
  return MemorySpan{regions_.back()->take(length), bytes, MemoryKind::host};
}

void Arena::release(MemorySpan buffer) {
  const auto owner = std::find_if(regions_.begin(), regions_.end(),
                                  [&buffer](const auto& region) { return region->contains(buffer.data); });
  check(owner != regions_.end(), "arena: the released buffer is from this arena");
  (*owner)->give_back((*owner)->offset_of(buffer.data));
  const bool keep = owner == regions_.begin() && initial_bytes_ > 0;
  if ((*owner)->unused() && !keep) regions_.erase(owner);
}

std::optional<Arena::Place> Arena::place_of(const void* address) const {
  for (const auto& region : regions_)
    if (region->contains(address)) {
      const SharedMemory& memory = region->memory();
      return Place{memory.fd(), region->offset_of(address), memory.bytes(), memory.id()};
    }
  return std::nullopt;
}

std::size_t Arena::reserved_bytes() const {
  std::size_t total = 0;
  for (const auto& region : regions_) total += region->memory().bytes();
  return total;
}

}  // namespace rondel
