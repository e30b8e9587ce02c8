// SPDX-License-Identifier: Apache-2.0
// What stays prepared between operations, for how long, and what does not.
#include "ring/known_memory.h"

#include <catch2/catch.hpp>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

namespace rondel::test {
namespace {

/// Counts the registrations that are alive, and takes no more than `most` bytes in one.
class CountingEndpoint final : public Endpoint {
 public:
  explicit CountingEndpoint(std::size_t most = std::numeric_limits<std::size_t>::max(), bool holds = true)
      : most_(most), capabilities_{.holds_memory = holds} {}

  int alive = 0;
  int made = 0;

  Result<std::unique_ptr<Registration>> register_memory(MemorySpan memory) override {
    if (memory.bytes > most_) return Status(Code::out_of_resources, "more than can be locked");
    ++made;
    return std::unique_ptr<Registration>(std::make_unique<Counted>(memory, alive));
  }
  const Capabilities& capabilities() const override { return capabilities_; }
  Bytes address() const override { return {}; }
  Status connect(std::span<const Bytes>, std::span<const Rank>, Deadline) override { return {}; }
  Status post(std::span<const Work>, StreamRef) override { return {}; }
  Status can_post(std::span<const Work>) override { return {}; }
  Result<std::size_t> progress(std::chrono::nanoseconds) override { return std::size_t{0}; }
  void abort(Code) noexcept override {}
  const Status& failure() const override { return failure_; }
  std::optional<LabelMismatch> mismatch() const override { return {}; }
  int wait_descriptor() override { return -1; }
  std::uint64_t bytes_received() const override { return 0; }
  std::uint64_t bytes_sent() const override { return 0; }

 private:
  class Counted final : public Registration {
   public:
    Counted(MemorySpan memory, int& alive) : Registration(memory), alive_(alive) { ++alive_; }
    ~Counted() override { --alive_; }

   private:
    int& alive_;
  };

  const std::size_t most_;
  const Capabilities capabilities_;
  const Status failure_;
};

SharedMemory make_memory(std::size_t bytes) { return SharedMemory::create(bytes).value(); }

TEST_CASE("a region of memory that others can map stays known, whole, until it goes") {
  CountingEndpoint endpoint;
  KnownMemory known(&endpoint);
  {
    const SharedMemory memory = make_memory(100'000);
    const Slice head = known.find(memory.data(), 10);
    const Slice tail = known.find(memory.data() + 99'000, 1000);
    REQUIRE(head.region != nullptr);
    CHECK(head.region == tail.region);
    CHECK(head.data() == memory.data());
    CHECK(tail.data() == memory.data() + 99'000);
    CHECK(endpoint.made == 1);
    CHECK(known.find(memory.data() + memory.bytes() - 1, 2).region == nullptr);  // it ends before that
  }
  CHECK(endpoint.alive == 1);  // nobody asked since
  int elsewhere = 0;
  CHECK(known.find(&elsewhere, sizeof elsewhere).region == nullptr);
  CHECK(endpoint.alive == 0);
}

TEST_CASE("memory that comes where other memory was is another region") {
  CountingEndpoint endpoint;
  KnownMemory known(&endpoint);
  auto memory = std::make_unique<SharedMemory>(make_memory(4096));
  CHECK(known.find(memory->data(), 4096).region != nullptr);
  memory.reset();
  const SharedMemory next = make_memory(4096);  // most likely at the same address
  CHECK(known.find(next.data(), 4096).region != nullptr);
  CHECK(endpoint.made == 2);
  CHECK(endpoint.alive == 1);
}

TEST_CASE("other memory is not kept, nor is a region that can not be registered whole") {
  CountingEndpoint endpoint(8192);
  KnownMemory known(&endpoint);
  std::vector<std::byte> ordinary(4096);
  CHECK(known.find(ordinary.data(), ordinary.size()).region == nullptr);
  const SharedMemory large = make_memory(1 << 20);
  CHECK(known.find(large.data(), 4096).region == nullptr);
  CHECK(endpoint.made == 0);
  CHECK(known.prepare({large.data(), 4096, MemoryKind::host}).ok());  // for one operation
}

TEST_CASE("nothing is kept where registered memory must be able to give way") {
  CountingEndpoint endpoint(1 << 20, false);
  KnownMemory known(&endpoint);
  const SharedMemory memory = make_memory(4096);
  CHECK(known.find(memory.data(), 1).region == nullptr);
  CHECK(endpoint.made == 0);
}

TEST_CASE("so many regions are kept, and none gives way to another, as it may be in use") {
  CountingEndpoint endpoint;
  KnownMemory known(&endpoint);
  std::deque<SharedMemory> regions;
  for (std::size_t i = 0; i < KnownMemory::kMostKept; ++i) {
    regions.push_back(make_memory(4096));
    CHECK(known.find(regions.back().data(), 1).region != nullptr);
  }
  const SharedMemory more = make_memory(4096);
  CHECK(known.find(more.data(), 1).region == nullptr);
  CHECK(known.find(regions.front().data(), 1).region != nullptr);
  CHECK(endpoint.made == static_cast<int>(KnownMemory::kMostKept));
  regions.pop_front();
  CHECK(known.find(more.data(), 1).region != nullptr);
}

TEST_CASE("what the user told of is known until it is taken back, wherever it lies") {
  CountingEndpoint endpoint;
  KnownMemory known(&endpoint);
  std::vector<std::byte> ordinary(4096);
  CHECK(known.add(7, {ordinary.data(), ordinary.size(), MemoryKind::host}).ok());
  const Slice found = known.find(ordinary.data() + 96, 4000);
  REQUIRE(found.region != nullptr);
  CHECK(found.offset == 96);
  known.remove(7);
  CHECK(known.find(ordinary.data(), 1).region == nullptr);
  CHECK(endpoint.alive == 0);
}

}  // namespace
}  // namespace rondel::test
