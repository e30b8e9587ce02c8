// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace rondel::shm {

Result<Mapping> Mapping::of(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return system_failure(Code::io_error, "looking at a peer's memory", errno);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (facts.st_size <= 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status(Code::refused, "the peer sent memory that is not sealed at its size");
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED)
    return system_failure(Code::out_of_resources, fmt::format("mapping {} bytes of a peer's memory", bytes),
                          errno, "see vm.max_map_count and ulimit -v");
  (void)::madvise(data, bytes, MADV_HUGEPAGE);  // advice only
  return Mapping({static_cast<std::byte*>(data), bytes});
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace rondel::shm
