// SPDX-License-Identifier: Apache-2.0
// What stays registered between works, and for how long.
#include "transports/verbs/registration_cache.h"

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
  RegistrationCache cache(open_fake());
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
  RegistrationCache cache(open_fake());
  auto memory = std::make_unique<SharedMemory>(*SharedMemory::create(4096));
  const auto held = cache.find_or_register(part_of(*memory, 0, 4096));
  REQUIRE(held.ok());
  const std::size_t with_it = fabric.objects();
  memory.reset();
  cache.forget_departed();
  CHECK(cache.size() == 0);
  CHECK(fabric.objects() == with_it);
}

TEST_CASE("other memory is registered for each use") {
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake());
  Bytes memory(5000);
  const MemorySpan span{memory.data(), memory.size(), MemoryKind::host};
  const std::size_t before = fabric.objects();
  {
    const auto one = cache.find_or_register(span);
    const auto two = cache.find_or_register(span);
    REQUIRE((one.ok() && two.ok()));
    CHECK(fabric.objects() == before + 2);
  }
  CHECK(fabric.objects() == before);
  CHECK(cache.size() == 0);
}

TEST_CASE("the cache is bounded: the region that was used longest ago goes") {
  const FakeVerbs fabric;
  RegistrationCache cache(open_fake());
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
  RegistrationCache cache(open_fake());
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
  RegistrationCache cache(open_fake());
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
