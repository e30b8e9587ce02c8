// SPDX-License-Identifier: Apache-2.0
// rondel_alloc and rondel_free: one arena for the process, made at first use, or ordinary memory where none
// can be shared. rondel_register: what a communicator is told of other memory.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "bindings/c/comm.h"
#include "bindings/c/errors.h"
#include "lib/arena.h"
#include "lib/log.h"

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
    if (buffer.code() == Code::unavailable) return allocate_ordinary(bytes, buffer.status());
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
    if (found->second)
      arena_->release(*found->second);
    else
      std::free(memory);
    buffers_.erase(found);
    return {};
  }

 private:
  // Where no memory can be shared no transport could read it in place, so nothing is lost but speed.
  Result<void*> allocate_ordinary(std::size_t bytes, const Status& why) {
    if (std::exchange(told_, true) == false)
      log(LogLevel::warn, "rondel_alloc gives ordinary memory, since none can be shared: {}", why.text());
    const std::size_t whole = (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
    void* const memory = std::aligned_alloc(Arena::kAlignment, whole);
    if (memory == nullptr) return Status(Code::out_of_resources, fmt::format("no memory of {} bytes", bytes));
    std::memset(memory, 0, whole);
    buffers_.emplace(memory, std::nullopt);
    return memory;
  }

  std::mutex mutex_;
  std::unique_ptr<Arena> arena_;
  std::map<void*, std::optional<MemorySpan>> buffers_;  // nullopt: ordinary memory
  bool told_ = false;
};

// A registration's handle is its name, so that nothing is left when the communicator goes.
rondel_registration_t handle_of(std::uint64_t name) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
  return reinterpret_cast<rondel_registration_t>(static_cast<std::uintptr_t>(name));
}
std::uint64_t name_of(rondel_registration_t handle) { return reinterpret_cast<std::uintptr_t>(handle); }

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

rondel_status_t rondel_register(rondel_comm_t comm, void* memory, size_t bytes,
                                rondel_registration_t* registration) {
  if (registration != nullptr) *registration = nullptr;
  return rondel::c::answer_on(comm, [memory, bytes, registration](rondel_comm& on) -> Status {
    if (registration == nullptr) return rondel::c::wrong("registration is NULL");
    if (memory == nullptr || bytes == 0) return rondel::c::wrong("there is no memory to register");
    const auto name = on.communicator->remember_memory({static_cast<std::byte*>(memory), bytes});
    RONDEL_TRY(name);
    on.registrations.insert(*name);
    *registration = rondel::c::handle_of(*name);
    return {};
  });
}

rondel_status_t rondel_deregister(rondel_comm_t comm, rondel_registration_t registration) {
  if (registration == nullptr) return RONDEL_OK;
  return rondel::c::answer_on(comm, [registration](rondel_comm& on) -> Status {
    const std::uint64_t name = rondel::c::name_of(registration);
    if (on.registrations.erase(name) == 0)
      return rondel::c::wrong("the registration is none of this communicator");
    on.communicator->forget_memory(name);
    return {};
  });
}
