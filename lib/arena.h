// SPDX-License-Identifier: Apache-2.0
// Arena: buffers that another process of this machine can map. They lie in memfds that are sealed at their
// size, advised to use huge pages and faulted in by the caller of create() or allocate() (first touch decides
// the NUMA node). Whoever creates an arena owns it and every buffer in it; buffers end with the arena. One
// thread at a time calls it; the memory itself belongs to whoever holds the span. Contents of a new buffer
// are unspecified. It does not pass descriptors to other processes, and gives nothing in /dev/shm a name: all
// is gone with the last process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/memory.h"
#include "lib/status.h"

namespace rondel {

class Arena {
 public:
  /// Every buffer starts at a multiple of this, and no two share a page.
  static constexpr std::size_t kAlignment = 4096;

  /// Where a byte lies for another process: map `fd` (shared), `region_bytes` long, and look at `offset`.
  struct Place {
    int fd = -1;                   ///< stays the arena's; valid while the buffer is
    std::size_t offset = 0;        ///< of the byte asked for
    std::size_t region_bytes = 0;  ///< size of the whole memfd
    std::uint64_t region = 0;      ///< names the memfd; never used again in this process
  };

  /// `initial_bytes` are made ready at once and kept until the arena goes; 0 makes nothing ready. Room beyond
  /// them comes in further regions of at least the same size, each given back when its last buffer is
  /// released.
  static Result<std::unique_ptr<Arena>> create(std::size_t initial_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// out_of_resources names the limit that was met and what was asked of it.
  Result<MemorySpan> allocate(std::size_t bytes);
  /// `buffer` is what allocate() gave; nobody may touch it any more.
  void release(MemorySpan buffer);

  /// nullopt when `address` is in no buffer's region.
  std::optional<Place> place_of(const void* address) const;
  /// Memory held from the system, used or not.
  std::size_t reserved_bytes() const;

 private:
  class Region;
  explicit Arena(std::size_t initial_bytes);
  Status add_region(std::size_t bytes);

  std::size_t initial_bytes_;
  std::vector<std::unique_ptr<Region>> regions_;
};

}  // namespace rondel
