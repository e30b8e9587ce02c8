// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "lib/shared_memory.h"

namespace rondel::shm {

Result<Mapping> Mapping::of(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return system_failure(Code::io_error, "looking at a peer's memory", errno);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (facts.st_size <= 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status(Code::refused, "the peer sent memory that is not sealed at its size");
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  auto data = map_shared(fd, bytes);
  if (!data.ok()) return std::move(data).status().with("a peer's memory");
  (void)::madvise(*data, bytes, MADV_POPULATE_WRITE);  // advice only; the pages are there
  return Mapping({*data, bytes});
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace rondel::shm
