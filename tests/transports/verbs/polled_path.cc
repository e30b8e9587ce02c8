// SPDX-License-Identifier: Apache-2.0
#include "tests/transports/verbs/polled_path.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <new>

#include "tests/support/sanitizers.h"
#include "transports/verbs/frame.h"

namespace {

std::atomic<std::uint64_t> allocations{0};
thread_local bool uncounted = false;

}  // namespace

// The address sanitizer has its own, and then none are counted.
#if !UNDER_ADDRESS_SANITIZER
void* operator new(std::size_t bytes) {
  if (!uncounted) allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
#endif

namespace rondel::verbs::test {
namespace {

constexpr std::size_t kBytes = std::size_t{16} << 20;
constexpr std::size_t kOnePiece = 4096;
constexpr std::chrono::microseconds kLookEvery{500};

/// What the child tells its parent.
struct Told {
  std::uint64_t allocations = 0;
  std::uint64_t doorbells = 0;
  std::uint64_t requests = 0;
  std::uint64_t looks = 0;
};

std::uint64_t counter_of(PairOfRanks& ranks, std::string_view name) {
  std::uint64_t sum = 0;
  for (Endpoint* endpoint : {&ranks.zero(), &ranks.one()})
    for (const Counter& counter : endpoint->counters())
      if (counter.name == name) sum += counter.value;
  return sum;
}

/// Whether it ended.
bool move_once(PairOfRanks& ranks, const Work& send, const Work& receive, Completion& done) {
  done.arm(2);
  if (!ranks.one().post({&receive, 1}, {}).ok() || !ranks.zero().post({&send, 1}, {}).ok()) return false;
  while (!done.done())
    for (Endpoint* endpoint : {&ranks.zero(), &ranks.one()})
      if (!endpoint->progress(std::chrono::nanoseconds::zero()).ok()) return false;
  return true;
}

int move_counted(const Result<VerbsLibrary>& library, Verb verb, Told& told) {
  PairOfRanks ranks({}, library);
  Buffer out(ranks.zero(), kBytes);
  Buffer in(ranks.one(), kBytes);
  Slice source = out.all();
  Slice target = in.all();
  Completion done;
  const Work send{.verb = Verb::send, .peer = 1, .local = {&source, 1}, .done = &done};
  const Work receive{.verb = verb,
                     .peer = 0,
                     .local = {&target, 1},
                     .reduction = {.type = DataType::float32, .op = ReduceOp::sum},
                     .done = &done};
  // Once for each place that a work or a credit can have; the last is as large as what is counted.
  for (std::size_t i = 0; i <= kMaxPieces; ++i) {
    source.bytes = target.bytes = i < kMaxPieces ? kOnePiece : kBytes;
    if (!move_once(ranks, send, receive, done)) return 1;
  }
  const auto began = std::chrono::steady_clock::now();
  const std::uint64_t doorbells_before = counter_of(ranks, "doorbells");
  const std::uint64_t requests_before = counter_of(ranks, "work_requests");
  const std::uint64_t allocations_before = allocations;
  rondel::test::start_counting();
  const bool ended = move_once(ranks, send, receive, done);
  rondel::test::stop_counting();
  told.allocations = allocations - allocations_before;
  told.doorbells = counter_of(ranks, "doorbells") - doorbells_before;
  told.requests = counter_of(ranks, "work_requests") - requests_before;
  told.looks = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - began) / kLookEvery) + 2;
  return ended ? 0 : 1;
}

}  // namespace

PolledCosts costs_of_polling(const Result<VerbsLibrary>& library, Verb receive) {
  void* const shared =
      ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  auto* const told = new (shared) Told;
  PolledCosts costs;
  costs.calls = rondel::test::count_system_calls([&] { return move_counted(library, receive, *told); });
  costs.allocations = told->allocations;
  costs.doorbells = told->doorbells;
  costs.requests = told->requests;
  costs.looks = told->looks;
  ::munmap(shared, sizeof(Told));
  return costs;
}

VerbsLibrary uncounted_fake() {
  VerbsLibrary library = FakeVerbs::table();
  library.post_send = [](ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad) {
    uncounted = true;
    const int result = FakeVerbs::table().post_send(pair, list, bad);
    uncounted = false;
    return result;
  };
  library.post_recv = [](ibv_qp* pair, ibv_recv_wr* list, ibv_recv_wr** bad) {
    uncounted = true;
    const int result = FakeVerbs::table().post_recv(pair, list, bad);
    uncounted = false;
    return result;
  };
  library.poll_cq = [](ibv_cq* queue, int most, ibv_wc* completions) {
    uncounted = true;
    const int result = FakeVerbs::table().poll_cq(queue, most, completions);
    uncounted = false;
    return result;
  };
  return library;
}

void check(const PolledCosts& costs, bool doorbells_are_calls) {
  if (!costs.calls.traced) {
    WARN("skipped: this process may not trace its children");
    return;
  }
  REQUIRE(costs.calls.exit_code == 0);
  CHECK(costs.allocations == 0);
  // Those for receives are no calls, and count as doorbells too.
  CHECK(costs.calls.of(SYS_write) <= (doorbells_are_calls ? costs.doorbells : 0));
  // A look of either rank asks its link's socket, and its device for news of two kinds; now and then it
  // accepts whoever called.
  CHECK(costs.calls.of(SYS_recvfrom) <= 2 * costs.looks);
  CHECK(costs.calls.of(SYS_read) <= 4 * costs.looks);
  CHECK(costs.calls.of(SYS_accept4) <= costs.looks);
  CHECK(costs.calls.others({SYS_recvfrom, SYS_read, SYS_write, SYS_accept4}) == "");
}

}  // namespace rondel::verbs::test
