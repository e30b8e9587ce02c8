// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/own_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace rondel::verbs {

Result<OwnMemory> OwnMemory::create(std::shared_ptr<Device> device, std::size_t bytes) {
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages == MAP_FAILED) return system_failure(Code::out_of_resources, "taking memory for a link", errno);
  OwnMemory memory;
  memory.data_ = static_cast<std::byte*>(pages);
  memory.bytes_ = bytes;
  auto registered = DeviceMemory::create(std::move(device), {memory.data_, bytes, MemoryKind::host});
  RONDEL_TRY(registered);
  memory.on_device_ = *std::move(registered);
  return memory;
}

OwnMemory::OwnMemory(OwnMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      on_device_(std::move(other.on_device_)) {}

OwnMemory& OwnMemory::operator=(OwnMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(on_device_, other.on_device_);
  return *this;
}

OwnMemory::~OwnMemory() {
  on_device_ = {};  // before the pages go
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace rondel::verbs
