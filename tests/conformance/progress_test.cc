// SPDX-License-Identifier: Apache-2.0
// The contract's rules on progress, waiting and counters.
#include <poll.h>

#include <array>
#include <catch2/catch.hpp>
#include <ctime>

#include "tests/conformance/world.h"
#include "tests/support/clocks.h"

namespace rondel::conformance {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

bool readable(int descriptor, milliseconds within) {
  pollfd item{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&item, 1, static_cast<int>(within.count())) == 1;
}

TEST_CASE("G1: progress(0) returns at once, with or without works") {
  CHECK(run_world(2, [](Member& m) {
          Buffer buffer(m.e, message(0, 1, 0, 100));
          Completion& done = m.armed(1);
          const auto started = Deadline::Clock::now();
          for (int i = 0; i < 100; ++i) {
            const auto finished = m.e.progress(nanoseconds::zero());
            m.t.require_ok(finished, "progress");
            m.t.require(*finished == 0, "nothing finishes");
            if (i == 50 && m.rank() == 1) m.t.require_ok(m.recv(0, buffer.all(), done), "post");
          }
          m.t.expect(Deadline::Clock::now() - started < milliseconds(2000), "it does not wait");
          m.meet();
          if (m.rank() == 0) m.t.require_ok(m.send(1, buffer.all(), done), "post");
          m.t.require_ok(m.progress_until(done), "finish");
        }) == "");
}

TEST_CASE("G2: progress waits as long as it may when nothing happens, and leaves the processor alone") {
  CHECK(run_world(2, [](Member& m) {
          Buffer buffer(m.e, message(0, 1, 0, 100));
          Completion& done = m.armed(1);
          if (m.rank() == 1) {
            m.t.require_ok(m.recv(0, buffer.all(), done), "post");
            (void)m.e.progress(nanoseconds::zero());
            const auto started = Deadline::Clock::now();
            const auto cpu_before = test::cpu_time(CLOCK_THREAD_CPUTIME_ID);
            const auto finished = m.e.progress(milliseconds(300));
            const auto cpu = test::cpu_time(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
            const auto waited = Deadline::Clock::now() - started;
            m.t.require_ok(finished, "progress");
            m.t.expect_equal(*finished, std::size_t{0}, "works finished");
            m.t.expect(waited >= milliseconds(299), "it waits");
            m.t.expect(waited < milliseconds(3000), "and no longer");
            m.t.expect(cpu < milliseconds(30), "asleep");
          }
          m.meet();
          if (m.rank() == 0) m.t.require_ok(m.send(1, buffer.all(), done), "post");
          m.t.require_ok(m.progress_until(done), "finish");
        }) == "");
}

TEST_CASE("G3: a waiting progress wakes up when the peer sends") {
  test::Event waiting;
  CHECK(run_world(2, [&waiting](Member& m) {
          Buffer buffer(m.e, message(0, 1, 0, 100));
          Completion& done = m.armed(1);
          if (m.rank() == 0) {
            m.t.require(waiting.wait(soon()), "rank 1 is about to wait");
            (void)m.e.progress(milliseconds(50));  // gives it the time to
            m.t.require_ok(m.send(1, buffer.all(), done), "post");
            m.t.require_ok(m.progress_until(done), "finish");
            return;
          }
          m.t.require_ok(m.recv(0, buffer.all(), done), "post");
          const auto started = Deadline::Clock::now();
          waiting.set();
          m.t.require_ok(m.e.progress(std::chrono::seconds(20)), "progress");
          while (!done.done()) m.t.require_ok(m.e.progress(std::chrono::seconds(20)), "progress");
          m.t.expect(Deadline::Clock::now() - started < std::chrono::seconds(10),
                     "long before its time was over");
        }) == "");
}

TEST_CASE("G4: progress counts the works that it finishes") {
  CHECK(run_world(2, [](Member& m) {
          const Rank peer = 1 - m.rank();
          Buffer out(m.e, message(m.rank(), peer, 0, 900));
          Buffer in(m.e, 900);
          Completion& done = m.armed(6);
          std::size_t finished = 0;
          for (std::size_t i = 0; i < 3; ++i) {
            const std::array slices{out.part(i * 300, 300), in.part(i * 300, 300)};
            const std::array works{
                Work{.verb = Verb::send, .peer = peer, .local = {&slices[0], 1}, .done = &done},
                Work{.verb = Verb::recv, .peer = peer, .local = {&slices[1], 1}, .done = &done}};
            if (i < m.e.capabilities().max_in_flight) m.t.require_ok(m.e.post(works, {}), "post");
          }
          const Deadline deadline = soon();
          while (!done.done() && !deadline.passed()) {
            const auto now = m.e.progress(milliseconds(100));
            m.t.require_ok(now, "progress");
            finished += *now;
          }
          m.t.expect_equal(finished, std::size_t{6}, "works finished");
        }) == "");
}

TEST_CASE("G5: the wait descriptor turns readable when there is something to do") {
  CHECK(run_world(2, [](Member& m) {
          Buffer buffer(m.e, message(0, 1, 0, 100));
          if (m.e.wait_descriptor() < 0) return;  // the fabric has none
          for (std::uint64_t round = 0; round < 20; ++round) {
            Completion& done = m.armed(1);
            if (m.rank() == 0) {
              m.meet();
              m.t.require_ok(m.send(1, buffer.all(), done), "post");
              m.t.require_ok(m.progress_until(done), "finish");
              continue;
            }
            m.t.require_ok(m.recv(0, buffer.all(), done), "post");
            m.t.require_ok(m.e.progress(nanoseconds::zero()), "progress");
            m.t.expect(!readable(m.e.wait_descriptor(), milliseconds(round == 0 ? 50 : 0)),
                       "nothing to do yet");
            m.meet();
            const Deadline deadline = soon();
            while (!done.done() && !deadline.passed()) {
              m.t.require(readable(m.e.wait_descriptor(), milliseconds(10'000)),
                          "readable once the peer has sent");
              m.t.require_ok(m.e.progress(nanoseconds::zero()), "progress");
            }
            m.t.expect(done.done(), "finished without a blocking progress");
          }
        }) == "");
}

TEST_CASE("G5: the wait descriptor is readable when what a new work waits for has arrived with another") {
  CHECK(run_world(2, [](Member& m) {
          if (m.e.wait_descriptor() < 0 || m.e.capabilities().max_in_flight < 4) return;
          std::array<Completion*, 4> done;
          for (Completion*& one : done) one = &m.armed(1);
          const std::array<std::size_t, 4> bytes{100, 0, 200, 300};
          std::vector<Buffer> buffers;
          for (std::size_t i = 0; i < 4; ++i)
            buffers.emplace_back(m.e, m.rank() == 0 ? message(0, 1, i, bytes[i]) : Bytes(bytes[i]));
          if (m.rank() == 0) {
            for (std::size_t i = 0; i < 4; ++i) m.t.require_ok(m.send(1, buffers[i].all(), *done[i]), "post");
            (void)m.e.progress(nanoseconds::zero());
            m.meet();
            for (Completion* one : done) m.t.require_ok(m.progress_until(*one), "finish");
            m.meet();  // not before: a link that closes is readable
            return;
          }
          m.meet();  // now all four may be here
          for (std::size_t i = 0; i < 4; ++i) {
            m.t.require_ok(m.recv(0, buffers[i].all(), *done[i]), "post");
            const Deadline deadline = soon();
            while (!done[i]->done() && !deadline.passed()) {
              m.t.require(readable(m.e.wait_descriptor(), milliseconds(10'000)), "readable");
              m.t.require_ok(m.e.progress(nanoseconds::zero()), "progress");
            }
            m.t.expect(buffers[i].bytes() == message(0, 1, i, bytes[i]), "the bytes");
          }
          m.meet();
        }) == "");
}

TEST_CASE("G5: the wait descriptor turns readable when a sender has to go on") {
  CHECK(run_world(2, [](Member& m) {
          if (m.e.wait_descriptor() < 0) return;
          const std::size_t bytes = 30'000'000;  // more than any fabric buffers
          Buffer buffer(m.e, m.rank() == 0 ? message(0, 1, 0, bytes) : Bytes(bytes));
          Completion& done = m.armed(1);
          m.t.require_ok(m.rank() == 0 ? m.send(1, buffer.all(), done) : m.recv(0, buffer.all(), done),
                         "post");
          const Deadline deadline = soon();
          while (!done.done() && !deadline.passed()) {
            m.t.require_ok(m.e.progress(nanoseconds::zero()), "progress");
            if (!done.done())
              m.t.require(readable(m.e.wait_descriptor(), milliseconds(10'000)), "readable in time");
          }
          m.t.expect(done.done(), "finished");
          m.t.expect(m.rank() == 0 || buffer.bytes() == message(0, 1, 0, bytes), "the bytes");
        }) == "");
}

TEST_CASE("G6: a rank that makes no progress stalls its neighbours, and corrupts nothing") {
  CHECK(run_world(2, [](Member& m) {
          const std::size_t bytes = 20'000'000;
          Buffer buffer(m.e, m.rank() == 0 ? message(0, 1, 0, bytes) : Bytes(bytes));
          Completion& done = m.armed(1);
          m.t.require_ok(m.rank() == 0 ? m.send(1, buffer.all(), done) : m.recv(0, buffer.all(), done),
                         "post");
          if (m.rank() == 0) {
            // A fabric that writes by itself may be done: the receive is posted.
            const Code code = m.progress_until(done, Deadline::in(milliseconds(100))).code();
            m.t.expect(code == Code::timed_out || code == Code::ok, "the send waits, or is done");
          }
          m.meet();
          m.t.require_ok(m.progress_until(done), "finish");
          m.t.expect(m.rank() == 0 || buffer.bytes() == message(0, 1, 0, bytes), "the bytes");
        }) == "");
}

TEST_CASE("N1: the counters count payload bytes of all peers") {
  CHECK(run_world(3, [](Member& m) {
          m.t.expect_equal(m.e.bytes_sent() + m.e.bytes_received(), std::uint64_t{0}, "bytes at first");
          for (const Rank peer : everyone_but(m.rank(), m.size())) m.exchange(peer);
          m.t.expect_equal(m.e.bytes_sent(), std::uint64_t{80}, "bytes sent");
          m.t.expect_equal(m.e.bytes_received(), std::uint64_t{80}, "bytes received");
        }) == "");
}

TEST_CASE("N2: what moving took is told under constant names, and never falls") {
  CHECK(run_world(2, [](Member& m) {
          auto before = m.e.counters();
          for (int round = 0; round < 3; ++round) {
            m.exchange(1 - m.rank());
            const auto after = m.e.counters();
            m.t.require(after.size() == before.size(), "as many as before");
            for (std::size_t i = 0; i < after.size(); ++i) {
              m.t.expect(after[i].name != nullptr && std::string_view(after[i].name) == before[i].name,
                         "its name");
              m.t.expect(after[i].value >= before[i].value, std::string("never falls: ") + after[i].name);
            }
            before = after;
          }
        }) == "");
}

}  // namespace
}  // namespace rondel::conformance
