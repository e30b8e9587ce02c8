// SPDX-License-Identifier: Apache-2.0
// What tests of MappingWatch share: the process's watch where there can be one, and pages to watch.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <memory>

#include "lib/mapping_watch.h"

namespace rondel::test {

inline const std::size_t kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

/// Null where this process may not watch its memory, which is said.
inline std::shared_ptr<MappingWatch> watch_or_skip() {
  auto watch = MappingWatch::of_process();
  if (watch.ok()) return *std::move(watch);
  WARN("skipped: " << watch.status().text());
  return nullptr;
}

/// Pages of their own, between two that nothing can merge with, all touched.
class Pages {
 public:
  explicit Pages(std::size_t count)
      : bytes_(count * kPage),
        all_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(::mmap(data(), bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            data());
    std::memset(data(), 1, bytes_);
  }
  ~Pages() { ::munmap(all_, bytes_ + 2 * kPage); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return all_ + kPage; }
  std::byte* page(std::size_t number) const { return data() + number * kPage; }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::size_t bytes_;
  std::byte* const all_;
};

inline void remap(std::byte* at, std::size_t bytes) {
  CHECK(::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
}

}  // namespace rondel::test
