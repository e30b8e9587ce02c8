// SPDX-License-Identifier: Apache-2.0
// What stays registered between works, and for how long.
#include "transports/verbs/registration_cache.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <deque>

#include "tests/transports/verbs/world.h"

namespace rondel::verbs::test {
namespace {

std::shared_ptr<Device> open_fake() {
  auto device = Device::open(FakeVerbs::table(), {.device = "fake0"});
  REQUIRE(device.ok());
  return *std::move(device);
}

MemorySpan part_of(const SharedMemory& memory, std::size_t offset, std::size_t bytes) {
  return {memory.data() + offset, bytes, MemoryKind::host};
}

TEST_CASE("memory that others can map is registered once, whole, until it goes") {
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  const std::size_t before = fabric.objects();
  {
    auto memory = SharedMemory::create(100'000);
    REQUIRE(memory.ok());
    const auto head = cache.find_or_register(part_of(*memory, 0, 10));
    const auto tail = cache.find_or_register(part_of(*memory, 99'000, 1000));
    REQUIRE((head.ok() && tail.ok()));
    CHECK(*head == *tail);
    CHECK(fabric.objects() == before + 1);
  }
  CHECK(cache.size() == 1);
  cache.forget_departed();
  CHECK(cache.size() == 0);
  CHECK(fabric.objects() == before);
}

TEST_CASE("what was given out outlives the cache's memory of it") {
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  auto memory = std::make_unique<SharedMemory>(*SharedMemory::create(4096));
  const auto held = cache.find_or_register(part_of(*memory, 0, 4096));
  REQUIRE(held.ok());
  const std::size_t with_it = fabric.objects();
  memory.reset();
  cache.forget_departed();
  CHECK(cache.size() == 0);
  CHECK(fabric.objects() == with_it);
}

/// Whether this process may watch its memory, which is said where it may not.
bool can_watch() {
  const auto watch = MappingWatch::of_process();
  if (!watch.ok()) WARN("skipped: " << watch.status().text());
  return watch.ok();
}

/// Memory of its own that is no rondel_alloc's.
class Mapped {
 public:
  explicit Mapped(std::size_t bytes, int sharing = MAP_PRIVATE)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(data_ != MAP_FAILED);
  }
  ~Mapped() { ::munmap(data_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  MemorySpan part(std::size_t offset, std::size_t bytes) const {
    return {data_ + offset, bytes, MemoryKind::host};
  }
  MemorySpan all() const { return part(0, bytes_); }
  void map_again() {
    REQUIRE(::mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            data_);
  }

 private:
  const std::size_t bytes_;
  std::byte* const data_;
};

/// Whether `uses` uses of this memory, one after the other, left it registered.
bool stays_registered(RegistrationCache& cache, const MemorySpan& span, int uses) {
  const std::size_t before = cache.size();
  for (int i = 0; i < uses; ++i) REQUIRE(cache.find_or_register(span).ok());
  return cache.size() > before;
}

TEST_CASE("other memory stays registered from its second use on") {
  if (!can_watch()) return;
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  const Mapped memory(50'000);
  const std::size_t before = fabric.objects();
  CHECK(!stays_registered(cache, memory.all(), 1));
  CHECK(fabric.objects() == before);
  const auto second = cache.find_or_register(memory.all());
  const auto part = cache.find_or_register(memory.part(1000, 30'000));
  const auto third = cache.find_or_register(memory.all());
  REQUIRE((second.ok() && third.ok() && part.ok()));
  CHECK((*second == *third && *second == *part));
  CHECK(fabric.objects() == before + 1);
}

TEST_CASE("other memory is registered anew once it is other memory, and unpinned in passing") {
  if (!can_watch()) return;
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  Mapped memory(50'000);
  const std::size_t before = fabric.objects();
  REQUIRE(stays_registered(cache, memory.all(), 2));
  const auto old = cache.find_or_register(memory.all()).value();
  memory.map_again();
  const auto fresh = cache.find_or_register(memory.all()).value();
  CHECK(fresh != old);
  CHECK(cache.size() == 1);
  CHECK(fabric.objects() == before + 2);
  memory.map_again();
  cache.forget_departed();
  CHECK(cache.size() == 0);
}

TEST_CASE("memory that goes again and again is not worth keeping") {
  if (!can_watch()) return;
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  Mapped memory(50'000);
  const Mapped lasting(50'000);
  int kept = 0;
  for (int round = 0; round < 10; ++round) {
    if (stays_registered(cache, memory.all(), 2)) ++kept;
    memory.map_again();
    cache.forget_departed();
  }
  CHECK(kept == 3);
  CHECK(stays_registered(cache, lasting.all(), 2));
}

TEST_CASE("what no operation uses is let go before a fork, which would copy it") {
  if (!can_watch()) return;
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  const Mapped idle(50'000);
  const Mapped used(50'000);
  auto region = SharedMemory::create(4096);
  REQUIRE(region.ok());
  REQUIRE(stays_registered(cache, part_of(*region, 0, 8), 1));
  REQUIRE(stays_registered(cache, idle.all(), 2));
  REQUIRE(stays_registered(cache, used.all(), 2));
  auto use = cache.find_or_register(used.all()).value();
  const auto fork_once = [] {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
  };
  fork_once();
  CHECK(cache.size() == 2);
  CHECK(cache.find_or_register(used.all()).value() == use);
  CHECK(stays_registered(cache, idle.all(), 1));
  // A child's own children take nothing from its parent.
  const std::size_t objects = fabric.objects();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::size_t before = fabric.objects();
    use.reset();
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(0);
    ::waitpid(grandchild, nullptr, 0);
    ::_exit(fabric.objects() == before ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(fabric.objects() == objects - 1);
}

TEST_CASE("other memory is registered for each use where it can not be watched, or is not to be kept") {
  const FakeVerbs fabric;
  const Mapped memory(5000);
  const Mapped shared(5000, MAP_SHARED);
  RegistrationCache keeps(open_fake(), true);
  RegistrationCache keeps_none(open_fake(), false);
  CHECK_FALSE(stays_registered(keeps, shared.all(), 4));
  CHECK_FALSE(stays_registered(keeps_none, memory.all(), 4));
  CHECK_FALSE(stays_registered(keeps, memory.part(0, 0), 4));
}

TEST_CASE("what a device may only read is not kept: it may be written to the next time") {
  FakeVerbs fabric;
  const Mapped memory(5000);
  RegistrationCache cache(open_fake(), true);
  fabric.fail_call(FakeCall::reg_mr_to_write, EFAULT);
  CHECK_FALSE(stays_registered(cache, memory.all(), 4));
}

TEST_CASE("two caches may keep the same memory, and each goes on when the other ends") {
  if (!can_watch()) return;
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  Mapped memory(5000);
  {
    RegistrationCache other(open_fake(), true);
    CHECK(stays_registered(other, memory.all(), 2));
    CHECK(stays_registered(cache, memory.all(), 2));
  }
  CHECK(cache.size() == 1);
  memory.map_again();
  cache.forget_departed();
  CHECK(cache.size() == 0);
}

TEST_CASE("other memory gives way as regions do") {
  if (!can_watch()) return;
  FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  std::deque<Mapped> memories;
  for (std::size_t i = 0; i < RegistrationCache::kMost + 5; ++i)
    REQUIRE(cache.find_or_register(memories.emplace_back(5000).all()).ok());
  CHECK(cache.size() == 0);
  // From the last on: only so many are remembered as used before.
  for (auto memory = memories.rbegin(); memory != memories.rend(); ++memory)
    for (int use = 0; use < 2; ++use) REQUIRE(cache.find_or_register(memory->all()).ok());
  CHECK(cache.size() == RegistrationCache::kMost);
  fabric.limit_regions(RegistrationCache::kMost);
  auto wanted = SharedMemory::create(4096);
  REQUIRE(wanted.ok());
  CHECK(cache.find_or_register(part_of(*wanted, 0, 8)).ok());
  CHECK(cache.size() == 1);
}

TEST_CASE("the cache is bounded: the region that was used longest ago goes") {
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  const std::size_t before = fabric.objects();
  std::deque<SharedMemory> memories;
  for (std::size_t i = 0; i < RegistrationCache::kMost + 5; ++i) {
    memories.push_back(*SharedMemory::create(4096));
    REQUIRE(cache.find_or_register(part_of(memories.back(), 0, 8)).ok());
    REQUIRE(cache.find_or_register(part_of(memories.front(), 0, 8)).ok());  // stays, as it is used
  }
  CHECK(cache.size() == RegistrationCache::kMost);
  CHECK(fabric.objects() == before + RegistrationCache::kMost);
  REQUIRE(cache.find_or_register(part_of(memories.front(), 0, 8)).ok());
  CHECK(fabric.objects() == before + RegistrationCache::kMost);
}

TEST_CASE("F04: what is kept for later gives way where no more can be locked") {
  FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  auto kept = SharedMemory::create(4096);
  auto used = SharedMemory::create(4096);
  auto wanted = SharedMemory::create(4096);
  REQUIRE((kept.ok() && used.ok() && wanted.ok()));
  REQUIRE(cache.find_or_register(part_of(*kept, 0, 8)).ok());
  const auto in_use = cache.find_or_register(part_of(*used, 0, 8));
  fabric.limit_regions(2);
  CHECK(cache.find_or_register(part_of(*wanted, 0, 8)).ok());
  CHECK(cache.size() == 2);  // the one in use, the new one
  CHECK(cache.find_or_register(part_of(*used, 0, 8)).value() == in_use.value());
}

TEST_CASE("F04: what can not be registered is an error each time, and nothing is kept") {
  FakeVerbs fabric;
  RegistrationCache cache(open_fake(), true);
  auto memory = SharedMemory::create(4096);
  REQUIRE(memory.ok());
  fabric.fail_call(FakeCall::reg_mr, ENOMEM);
  CHECK(cache.find_or_register(part_of(*memory, 0, 8)).status().code() == Code::out_of_resources);
  CHECK(cache.size() == 0);
  fabric.fail_call(FakeCall::reg_mr, 0);
  CHECK(cache.find_or_register(part_of(*memory, 0, 8)).ok());
}

}  // namespace
}  // namespace rondel::verbs::test
