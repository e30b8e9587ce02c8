// SPDX-License-Identifier: Apache-2.0
// Where the bytes lie decides how they are moved; what arrives is the same. Mappings of a peer's memory are
// made once and given up with it.
#include <catch2/catch.hpp>

#include "lib/arena.h"
#include "tests/transports/shm/world.h"

namespace rondel::shm::test {
namespace {

constexpr std::size_t kBytes = 3'000'001;

std::vector<std::byte> as_sum(unsigned one, unsigned other, std::size_t bytes) {
  std::vector<std::byte> first(bytes), second(bytes);
  fill(first, one);
  fill(second, other);
  for (std::size_t i = 0; i < bytes; ++i)
    first[i] = static_cast<std::byte>(static_cast<unsigned>(first[i]) + static_cast<unsigned>(second[i]));
  return first;
}

}  // namespace

TEST_CASE("bytes of an arena, of the heap and through the lane arrive and fold alike") {
  const bool pull = GENERATE(true, false);
  const bool in_arena = GENERATE(true, false);
  const std::size_t bytes =
      GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{8192}, std::size_t{8193}, kBytes);
  CAPTURE(pull, in_arena, bytes);
  Pair pair = connected_pair({.pull = pull});
  const auto arena = *Arena::create(0);
  std::vector<std::byte> heap(bytes), to(bytes);
  const MemorySpan from = in_arena ? *arena->allocate(bytes) : MemorySpan{heap.data(), bytes};
  fill({from.data, bytes}, 5);
  CHECK(transfer(pair, from, {to.data(), bytes}) == "");
  CHECK(holds(to, 5));
  fill(to, 9);
  CHECK(transfer(pair, from, {to.data(), bytes}, Verb::recv_reduce) == "");
  CHECK(to == as_sum(5, 9, bytes));
  CHECK(pair.zero->bytes_sent() == 2 * bytes);
  CHECK(pair.one->bytes_received() == 2 * bytes);
}

TEST_CASE("a work whose slices lie in an arena and on the heap is one message") {
  Pair pair = connected_pair();
  const auto arena = *Arena::create(0);
  const MemorySpan shared = *arena->allocate(50'001);
  std::vector<std::byte> heap(70'003), to(50'001 + 70'003 + 50'001 - 7);
  fill({shared.data, shared.bytes}, 1);
  fill(heap, 2);
  const auto first = pair.zero->register_memory(shared),
             second = pair.zero->register_memory({heap.data(), heap.size()});
  const auto target = pair.one->register_memory({to.data(), to.size()});
  const Slice out[] = {{first->get(), 0, 50'001}, {second->get(), 0, 70'003}, {first->get(), 7, 50'001 - 7}};
  const Slice in{target->get(), 0, to.size()};
  Completion done;
  done.arm(2);
  const Work send{.verb = Verb::send, .peer = 1, .local = out, .done = &done};
  const Work receive{.verb = Verb::recv, .peer = 0, .local = {&in, 1}, .done = &done};
  REQUIRE(pair.zero->post({&send, 1}, {}).ok());
  REQUIRE(pair.one->post({&receive, 1}, {}).ok());
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  while (!done.done() && !deadline.passed()) {
    REQUIRE(pair.zero->progress(std::chrono::nanoseconds::zero()).ok());
    REQUIRE(pair.one->progress(std::chrono::nanoseconds::zero()).ok());
  }
  CHECK(std::equal(to.begin(), to.begin() + 50'001, shared.data));
  CHECK(std::equal(heap.begin(), heap.end(), to.begin() + 50'001));
  CHECK(std::equal(shared.data + 7, shared.data + 50'001, to.begin() + 50'001 + 70'003));
}

TEST_CASE("a region is mapped once, however often it is sent from, and unmapped after it is gone") {
  Pair pair = connected_pair();
  std::vector<std::byte> to(kBytes);
  std::size_t before = mapped_memfds();
  {
    const auto arena = *Arena::create(0);
    const MemorySpan from = *arena->allocate(kBytes);
    for (unsigned i = 0; i < 5; ++i) {
      fill({from.data, from.bytes}, i);
      CHECK(transfer(pair, from, {to.data(), to.size()}) == "");
      CHECK(holds(to, i));
    }
    CHECK(mapped_memfds() == before + 2);  // the owner's and the peer's
  }
  CHECK(mapped_memfds() == before + 1);
  CHECK(transfer(pair, {to.data(), 100}, {to.data() + 100, 100}) == "");  // the next message brings the word
  CHECK(transfer(pair, {to.data(), to.size()}, {to.data(), to.size()}) == "");
  CHECK(mapped_memfds() <= before + 1);
}

TEST_CASE("thousands of regions that come and go leave nothing behind, however many go at once") {
  Pair pair = connected_pair();
  std::vector<std::byte> to(20'000);
  const std::size_t before = mapped_memfds();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Arena>> arenas;
    for (int i = 0; i < 700; ++i) {
      arenas.push_back(*Arena::create(0));
      const MemorySpan from = *arenas.back()->allocate(to.size());
      fill({from.data, from.bytes}, static_cast<unsigned>(i));
      REQUIRE(transfer(pair, from, {to.data(), to.size()}) == "");
      REQUIRE(holds(to, static_cast<unsigned>(i)));
    }
    arenas.clear();
  }
  for (int i = 0; i < 3000; ++i) REQUIRE(transfer(pair, {to.data(), 8}, {to.data() + 8, 8}) == "");
  CHECK(mapped_memfds() <= before + 100);
}

TEST_CASE("endpoints leave no mapping behind") {
  const std::size_t before = mapped_memfds();
  {
    Pair pair = connected_pair();
    CHECK(mapped_memfds() == before + 2);  // the segment, by either side
  }
  CHECK(mapped_memfds() == before);
}

}  // namespace rondel::shm::test
