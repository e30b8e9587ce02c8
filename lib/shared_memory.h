// SPDX-License-Identifier: Apache-2.0
// SharedMemory: one mapped memfd, made by this process for others of the machine to map too. Its size is
// sealed, it asks for huge pages, and every page is present when create() returns, so touching it can not
// fail later. The owner unmaps and closes it by destroying it; mappings of other processes stay. A value, one
// thread at a time, but the process's list of them may be asked on any. Splitting it into buffers is
// lib/arena.h's work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

class SharedMemory {
 public:
  /// Where a byte lies for another process: map `fd` (shared), `bytes` long, and look at `offset`.
  struct Place {
    int fd = -1;             ///< stays the memory's; valid while it is
    std::size_t offset = 0;  ///< of the byte asked for
    std::size_t bytes = 0;   ///< size of the whole memfd
    std::uint64_t id = 0;    ///< SharedMemory::id
  };
  /// nullopt when no SharedMemory of this process holds all of [data, data + bytes). Any thread; the answer
  /// is good while that memory lives.
  static std::optional<Place> find(const void* data, std::size_t bytes);
  /// The ids of the memories that have gone since `seen` departures, and how many there were in all, to be
  /// given the next time. Any thread.
  static std::vector<std::uint64_t> departed_since(std::uint64_t& seen);
  static std::uint64_t departures();

  /// At least `bytes`, rounded up to whole pages, or to whole huge pages from one huge page on. unavailable:
  /// this process may not make any; out_of_resources names the limit that was met.
  static Result<SharedMemory> create(std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// Gives all pages back, in the mappings of other processes too: what was in them is gone.
  void drop_pages();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  /// Unlike the descriptor's number, never used again in this process.
  std::uint64_t id() const { return id_; }

 private:
  SharedMemory(UniqueFd fd, std::byte* data, std::size_t bytes);

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t id_ = 0;
};

/// Maps `bytes` of a SharedMemory's descriptor, here or in another process; from one huge page on at a
/// multiple of its size, else the kernel can not use them. To be given to munmap(2).
Result<std::byte*> map_shared(int fd, std::size_t bytes);

}  // namespace rondel
