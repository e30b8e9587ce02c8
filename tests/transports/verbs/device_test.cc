// SPDX-License-Identifier: Apache-2.0
// What only a real device can show. Exit code 77 where there is none.
#define CATCH_CONFIG_RUNNER
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>

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
