// SPDX-License-Identifier: Apache-2.0
// What only a real device can show. Exit code 77 where there is none.
#define CATCH_CONFIG_RUNNER
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/transports/verbs/polled_path.h"
#include "tests/transports/verbs/world.h"
#include "transports/verbs/survey.h"
#include "transports/verbs/transport.h"

namespace rondel::verbs::test {
namespace {

constexpr std::size_t kPage = 4096;

// A child that writes all over the pages at both ends of the buffer, and around it, then stays for a while.
pid_t fork_scribbler(std::byte* pages, std::size_t bytes) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  for (std::size_t i = 0; i < bytes; i += 64) pages[i] = std::byte{0xbd};
  ::_exit(0);
}

TEST_CASE("F05: a child that a rank forks neither crashes on its memory nor changes what arrives") {
  PairOfRanks ranks({}, system_library());
  const std::size_t bytes = 3 * kPage;
  std::vector<std::byte> pages(bytes + 2 * kPage);
  std::byte* const at = pages.data() + kPage + 100;  // not aligned: shares its pages with others
  auto region = ranks.one().register_memory({at, bytes, MemoryKind::host});
  REQUIRE(region.ok());
  Buffer out(ranks.zero(), bytes);
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < bytes; ++i)
      out.bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(round));
    const Slice from = out.all();
    const Slice to{region->get(), 0, bytes};
    Completion done;
    done.arm(2);
    const Work send{.verb = Verb::send, .peer = 1, .local = {&from, 1}, .done = &done};
    const Work recv{.verb = Verb::recv, .peer = 0, .local = {&to, 1}, .done = &done};
    REQUIRE(ranks.one().post({&recv, 1}, {}).ok());
    const pid_t child = fork_scribbler(pages.data(), pages.size());
    pages[kPage] = std::byte{1};  // now the page is the parent's own, or the device has the wrong one
    REQUIRE(ranks.zero().post({&send, 1}, {}).ok());
    const Deadline deadline = Deadline::in(std::chrono::seconds(10));
    while (!done.done() && !deadline.passed())
      for (Endpoint* endpoint : {&ranks.zero(), &ranks.one()})
        REQUIRE(endpoint->progress(std::chrono::nanoseconds::zero()).ok());
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    REQUIRE(done.done());
    CHECK(std::equal(out.bytes.begin(), out.bytes.end(), at));
  }
}

/// One send from `from` on rank 0 to `to` on rank 1, each registered for it alone.
void send_once(PairOfRanks& ranks, const MemorySpan& from, const MemorySpan& to) {
  auto source = ranks.zero().register_memory(from);
  auto target = ranks.one().register_memory(to);
  REQUIRE((source.ok() && target.ok()));
  const Slice out{source->get(), 0, from.bytes};
  const Slice in{target->get(), 0, to.bytes};
  Completion done;
  done.arm(2);
  const Work send{.verb = Verb::send, .peer = 1, .local = {&out, 1}, .done = &done};
  const Work recv{.verb = Verb::recv, .peer = 0, .local = {&in, 1}, .done = &done};
  REQUIRE(ranks.one().post({&recv, 1}, {}).ok());
  REQUIRE(ranks.zero().post({&send, 1}, {}).ok());
  const Deadline deadline = Deadline::in(std::chrono::seconds(10));
  while (!done.done() && !deadline.passed())
    for (Endpoint* endpoint : {&ranks.zero(), &ranks.one()})
      REQUIRE(endpoint->progress(std::chrono::nanoseconds::zero()).ok());
  REQUIRE(done.done());
}

TEST_CASE("memory that is kept registered and becomes other memory is reached where it is now") {
  PairOfRanks ranks({}, system_library());
  constexpr std::size_t kBytes = 8 * kPage;
  const auto map = [](void* at, int more) {
    void* const pages = ::mmap(at, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    return static_cast<std::byte*>(pages);
  };
  std::byte* const from = map(nullptr, 0);
  std::byte* const to = map(nullptr, 0);
  for (std::size_t round = 0; round < 60; ++round) {
    for (std::byte* const memory : {from, to}) {
      if (round % 5 == 2) map(memory, MAP_FIXED);
      if (round % 5 == 3) REQUIRE(::madvise(memory + kPage, 2 * kPage, MADV_DONTNEED) == 0);
      if (round % 5 != 4) continue;
      REQUIRE(::munmap(memory, kBytes) == 0);
      map(memory, MAP_FIXED);
    }
    for (std::size_t i = 0; i < kBytes; ++i) from[i] = static_cast<std::byte>(i * 7 + round * 13);
    send_once(ranks, {from, kBytes, MemoryKind::host}, {to, kBytes, MemoryKind::host});
    CHECK(std::equal(from, from + kBytes, to));
  }
  ::munmap(from, kBytes);
  ::munmap(to, kBytes);
}

TEST_CASE("pieces cost neither memory nor system calls but doorbells while a rank polls") {
  check(costs_of_polling(system_library(), Verb::recv), true);
  check(costs_of_polling(system_library(), Verb::recv_reduce), true);
}

TEST_CASE("large works in both directions between real queue pairs") {
  PairOfRanks ranks({}, system_library());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{20'000'001}})
    CHECK(ranks.send(bytes) == "");
}

TEST_CASE("large works between two devices, where there are two") {
  const auto devices = survey(*system_library());
  REQUIRE(devices.ok());
  if (devices->size() < 2) return;
  std::array<Config, 2> configs;
  for (std::size_t i = 0; i < 2; ++i) configs[i].verbs_device = (*devices)[i].name;
  PairOfRanks ranks(configs, system_library());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{3'000'001}})
    CHECK(ranks.send(bytes) == "");
}

}  // namespace
}  // namespace rondel::verbs::test

int main(int argc, char* argv[]) {
  constexpr int kSkipped = 77;
  const auto secret = rondel::Secret::generate();
  const rondel::Probe probe = rondel::verbs::make_transport({}, *secret)->probe();
  if (!probe.usable) {
    fmt::print(stderr, "skipped: {}\n", probe.why_not);
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}
