// SPDX-License-Identifier: Apache-2.0
// rondel_alloc and rondel_free: one arena for the process, made at first use.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <mutex>

#include "bindings/c/errors.h"
#include "lib/arena.h"

namespace rondel::c {
namespace {

/// Any thread. Never destroyed: memory handed out stays usable until the process ends.
class ProcessMemory {
 public:
  static ProcessMemory& instance() {
    static ProcessMemory* const kInstance = new ProcessMemory;
    return *kInstance;
  }

  Result<void*> allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (arena_ == nullptr) {
      auto arena = Arena::create(0);
      RONDEL_TRY(arena);
      arena_ = std::move(arena).value();
    }
    const auto buffer = arena_->allocate(bytes);
    RONDEL_TRY(buffer);
    std::memset(buffer->data, 0, buffer->bytes);
    buffers_.emplace(buffer->data, *buffer);
    return static_cast<void*>(buffer->data);
  }

  Status release(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(memory);
    if (found == buffers_.end())
      return wrong(fmt::format("{} is no memory of rondel_alloc, or was freed already", memory));
    arena_->release(found->second);
    buffers_.erase(found);
    return {};
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Arena> arena_;
  std::map<void*, MemorySpan> buffers_;
};

}  // namespace
}  // namespace rondel::c

using rondel::Status;

rondel_status_t rondel_alloc(size_t bytes, void** memory) {
  return rondel::c::answer([bytes, memory]() -> Status {
    if (memory == nullptr) return rondel::c::wrong("memory is NULL", "pass the address of a void*");
    *memory = nullptr;
    if (bytes == 0) return {};
    const auto allocated = rondel::c::ProcessMemory::instance().allocate(bytes);
    RONDEL_TRY(allocated);
    *memory = *allocated;
    return {};
  });
}

rondel_status_t rondel_free(void* memory) {
  if (memory == nullptr) return RONDEL_OK;
  return rondel::c::answer([memory] { return rondel::c::ProcessMemory::instance().release(memory); });
}
