// SPDX-License-Identifier: Apache-2.0
// What communicators leave behind when they have ended, or never began, and what they take while nothing is
// to do.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/ring/ring_world.h"
#include "tests/support/clocks.h"
#include "tests/support/holdings.h"
#include "tests/support/sanitizers.h"

namespace rondel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void start_and_sum(RankTest& test, RingWorld& world) {
  auto communicator = Communicator::create(world.make_job(test.rank()), world.options(test.rank()));
  test.require_ok(communicator, "create");
  std::vector<float> data(100'000, 1.0F);  // more than goes with a message
  test.require_ok((*communicator)->run(all_reduce_request(data, data)), "allreduce");
  test.expect(data.front() == 3.0F && data.back() == 3.0F, "sum");
}

/// Another transport, until it is asked for a communicator's second endpoint.
class OpensOnce final : public Transport {
 public:
  explicit OpensOnce(std::unique_ptr<Transport> real) : real_(std::move(real)) {}
  std::string_view name() const override { return real_->name(); }
  Probe probe() const override { return real_->probe(); }
  Status try_beacon(std::span<const std::byte> beacon) const override { return real_->try_beacon(beacon); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    if (options.channel == 1) return Status(Code::out_of_resources, "no second endpoint");
    return real_->open(options);
  }

 private:
  const std::unique_ptr<Transport> real_;
};

}  // namespace

TEST_CASE("F09: fifty communicators that worked leave nothing behind") {
  RingWorld world(3);
  const auto start_all = [&world] {
    CHECK(world.run_bare([&world](RankTest& test) { start_and_sum(test, world); }) == "");
  };
  start_all();  // what a process keeps from its first on
  const auto before = holdings();
  for (int i = 0; i < 50; ++i) start_all();
  CHECK(kept_since(before) == "");
}

TEST_CASE(
    "F09: fifty starts that failed leave nothing behind, wherever they failed, and the next one works") {
  RingWorld world(3);
  using Spoil = std::function<void(RankTest&, CommunicatorOptions&, Job&)>;
  const auto fail_all = [&world](Code code, const Spoil& spoil) {
    CHECK(world.run_bare([&](RankTest& test) {
      auto job = world.make_job(test.rank());
      CommunicatorOptions options = world.options(test.rank());
      spoil(test, options, *job);
      if (options.size == 0) return;  // it never comes
      const auto communicator = Communicator::create(std::move(job), options);
      test.expect_equal(communicator.code(), code, communicator.status().text());
    }) == "");
  };
  const Spoil settings = [](RankTest& test, CommunicatorOptions& options, Job&) {
    options.segment_bytes = test.rank() == 0 ? 4096 : 8192;
  };
  const Spoil endpoint = [](RankTest& test, CommunicatorOptions&, Job& job) {
    if (test.rank() == 1) job.transports[0] = std::make_unique<OpensOnce>(std::move(job.transports[0]));
  };
  const Spoil absent = [](RankTest& test, CommunicatorOptions& options, Job&) {
    options.start_timeout = milliseconds(200);
    options.name = "incomplete";  // whoever comes later is to learn that this one has failed
    if (test.rank() == 1) options.size = 0;
  };
  const auto start_all = [&world] {
    CHECK(world.run_bare([&world](RankTest& test) { start_and_sum(test, world); }) == "");
  };
  start_all();
  fail_all(Code::refused, settings);
  const auto before = holdings();
  for (int i = 0; i < 18; ++i) fail_all(Code::refused, settings);
  for (int i = 0; i < 28; ++i) fail_all(Code::out_of_resources, endpoint);
  for (int i = 0; i < 4; ++i) fail_all(Code::timed_out, absent);
  CHECK(kept_since(before) == "");
  start_all();
  CHECK(kept_since(before) == "");
}

#if !UNDER_THREAD_SANITIZER  // which has threads of its own
TEST_CASE(
    "C30: three ranks that have nothing to do, or wait for another, take less than 1 % of a core each") {
  RingWorld world(3);
  Meeting meeting(3);
  const auto rests = [](std::string_view what, RankTest& test) {
    static constexpr seconds kWhile{1};
    const auto before = cpu_time(CLOCK_PROCESS_CPUTIME_ID);
    const auto until = Deadline::in(kWhile);
    while (!until.passed()) std::this_thread::sleep_for(until.left());
    const auto used = cpu_time(CLOCK_PROCESS_CPUTIME_ID) - before;
    test.expect(used < milliseconds(30), fmt::format("{}: {} us", what, used.count() / 1000));
  };
  CHECK(world.run([&](RankTest& test, Communicator& communicator) {
    const auto all_are_here = [&] {
      test.require(meeting.arrive_and_wait(Deadline::in(seconds(20))), "all are here");
    };
    std::vector<float> data(1000, 1.0F);
    test.require_ok(communicator.run(all_reduce_request(data, data)), "allreduce");
    all_are_here();
    if (test.rank() == 0) rests("nothing to do", test);
    all_are_here();
    if (test.rank() == 0) rests("two wait for the third", test);
    test.require_ok(communicator.run(all_reduce_request(data, data)), "allreduce that two wait in");
    all_are_here();
  }) == "");
}
#endif

}  // namespace rondel::test
