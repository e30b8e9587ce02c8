// SPDX-License-Identifier: Apache-2.0
// The contract's rules on failure, abort and peers that go.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>

#include "tests/conformance/world.h"
#include "tests/support/seed.h"

namespace rondel::conformance {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::byte kUntouched{0x5a};

bool all_are(const Bytes& bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [value](std::byte byte) { return byte == value; });
}

// Rank 0 sends `theirs` bytes where rank 1 expects `mine`.
void provoke_mismatch(Member& m, std::size_t theirs, std::size_t mine, Label their_label, Label my_label,
                      Verb verb) {
  Completion& done = m.armed(1);
  if (m.rank() == 0) {
    Buffer out(m.e, message(0, 1, 0, theirs));
    m.t.require_ok(m.send(1, out.all(), done, their_label), "post");
    const Deadline deadline = soon();
    while (m.e.failure().ok() && !done.done() && !deadline.passed()) (void)m.e.progress(milliseconds(20));
    m.t.expect(done.done(), "the sender's work finishes");
    m.meet();
    return;
  }
  Buffer in(m.e, mine, kUntouched);
  const Slice to = in.all();
  m.t.require_ok(m.post({.verb = verb, .peer = 0, .local = {&to, 1}, .label = my_label, .done = &done}),
                 "post");
  const Status status = m.progress_until_failure();
  m.t.expect_equal(status.code(), Code::mismatch, "the receiver's failure: " + status.text());
  m.t.expect_equal(done.code(), Code::mismatch, "the completion's code");
  m.t.expect_equal(status.failure().peer, Rank{0}, "the peer");
  m.t.expect(all_are(in.bytes(), kUntouched), "the destination is untouched");
  const auto mismatch = m.e.mismatch();
  m.t.require(mismatch.has_value(), "the endpoint shows both sides");
  m.t.expect_equal(mismatch->peer, Rank{0}, "the peer of the mismatch");
  m.t.expect_equal(mismatch->my_bytes, std::uint64_t{mine}, "my bytes");
  m.t.expect_equal(mismatch->their_bytes, std::uint64_t{theirs}, "their bytes");
  m.t.expect(mismatch->mine == my_label && mismatch->theirs == their_label, "both labels");
  if (theirs != mine)
    m.t.expect(status.text().find(std::to_string(theirs)) != std::string::npos &&
                   status.text().find(std::to_string(mine)) != std::string::npos,
               "the text holds both numbers: " + status.text());
  m.meet();
}

TEST_CASE("P5: different lengths are a mismatch on the receiver, before any byte is written") {
  for (const Verb verb : {Verb::recv, Verb::recv_reduce})
    for (const auto& [theirs, mine] : {std::pair{400, 404}, std::pair{404, 400}, std::pair{0, 4},
                                       std::pair{4, 0}, std::pair{2'000'000, 40}, std::pair{40, 2'000'000}})
      CHECK(run_world(2, [&, theirs = theirs, mine = mine](Member& m) {
              provoke_mismatch(m, static_cast<std::size_t>(theirs), static_cast<std::size_t>(mine), {}, {},
                               verb);
            }) == "");
}

TEST_CASE("P6: different labels are a mismatch that shows both, before any byte is written") {
  for (const Verb verb : {Verb::recv, Verb::recv_reduce}) {
    CHECK(run_world(2, [verb](Member& m) { provoke_mismatch(m, 64, 64, {{1, 2}}, {{1, 3}}, verb); }) == "");
    CHECK(run_world(2, [verb](Member& m) {
            provoke_mismatch(m, 64, 64, {{~std::uint64_t{0}, 0}}, {{0, 0}}, verb);
          }) == "");
  }
}

TEST_CASE("P6: equal labels pass") {
  CHECK(run_world(2, [](Member& m) {
          Buffer buffer(m.e, message(0, 1, 0, 10));
          Completion& done = m.armed(1);
          const Label label{{0x0123456789abcdef, ~std::uint64_t{0}}};
          m.t.require_ok(
              m.rank() == 0 ? m.send(1, buffer.all(), done, label) : m.recv(0, buffer.all(), done, label),
              "post");
          m.t.require_ok(m.progress_until(done), "finish");
          m.t.expect(!m.e.mismatch().has_value(), "no mismatch");
        }) == "");
}

TEST_CASE("F1: the first failure finishes all works and refuses all later calls, with one text") {
  CHECK(run_world(3, [](Member& m) {
          Buffer buffer(m.e, 64, kUntouched);
          Completion& fine = m.armed(1);
          if (m.rank() == 2) {  // sends something that rank 0 does not expect
            m.t.require_ok(m.send(0, buffer.part(0, 5), fine), "post");
            (void)m.progress_until(fine);
            return m.meet();
          }
          if (m.rank() == 1) {
            m.exchange(0);
            return m.meet();
          }
          m.exchange(1);
          Completion& with_1 = m.armed(2);
          Completion& with_2 = m.armed(1);
          m.t.require_ok(m.recv(1, buffer.part(0, 8), with_1), "post");
          m.t.require_ok(m.recv(1, buffer.part(8, 8), with_1), "post");
          m.t.require_ok(m.recv(2, buffer.part(16, 8), with_2), "post");
          const Status first = m.progress_until_failure();
          m.t.expect_equal(first.code(), Code::mismatch, first.text());
          m.t.expect(with_1.done() && with_2.done(), "every posted work has finished");
          m.t.expect_equal(with_1.code(), Code::mismatch, "works with other peers carry the code");
          m.t.expect(all_are(buffer.bytes(), kUntouched), "no destination was touched");
          m.t.expect_equal(m.e.failure().text(), first.text(), "failure() tells the same");
          m.t.expect_equal(m.e.progress(nanoseconds::zero()).status().text(), first.text(),
                           "progress tells the same");
          Completion& late = m.armed(1);
          m.t.expect_equal(m.recv(1, buffer.all(), late).text(), first.text(), "post tells the same");
          m.t.expect(!late.done(), "and posts nothing");
          m.e.abort(Code::aborted);
          m.t.expect_equal(m.e.failure().text(), first.text(), "a later abort does not replace it");
          m.meet();
        }) == "");
}

// Rank 1 leaves with `works` of rank 0 open.
void check_peer_loss(Verb verb, bool by_abort) {
  CHECK(run_world(2, [&](Member& m) {
          m.exchange(1 - m.rank());
          if (m.rank() == 1) {
            if (by_abort) m.e.abort(Code::aborted);
            return;
          }
          const std::size_t bytes = 20'000'000;
          Buffer buffer(m.e, bytes);
          Completion& done = m.armed(1);
          const Slice slice = buffer.all();
          m.t.require_ok(m.post({.verb = verb, .peer = 1, .local = {&slice, 1}, .done = &done}), "post");
          const auto started = Deadline::Clock::now();
          const Status status = m.progress_until_failure();
          m.t.expect_equal(status.code(), Code::peer_lost, status.text());
          m.t.expect_equal(done.code(), Code::peer_lost, "the completion's code");
          m.t.expect_equal(status.failure().peer, Rank{1}, "the peer");
          m.t.expect_equal(std::string_view(status.failure().host), std::string_view("host-1"), "its host");
          m.t.expect(status.text().find("rank 1") != std::string::npos,
                     "the text names it: " + status.text());
          m.t.expect(Deadline::Clock::now() - started < milliseconds(2000), "within two seconds");
        }) == "");
}

TEST_CASE("F2: who still needs a peer that has gone gets peer_lost with its rank and host") {
  for (const Verb verb : {Verb::recv, Verb::send, Verb::recv_reduce}) {
    check_peer_loss(verb, true);
    check_peer_loss(verb, false);
  }
}

TEST_CASE("F3: a peer that has gone does not disturb works with others") {
  CHECK(run_world(3, [](Member& m) {
          for (const Rank peer : everyone_but(m.rank(), m.size())) m.exchange(peer);
          if (m.rank() == 2) return;  // done, and leaves
          for (std::uint64_t i = 0; i < 300; ++i) m.exchange(1 - m.rank(), i);
          m.t.expect(m.e.failure().ok(), "the endpoint is healthy");
        }) == "");
}

TEST_CASE("F4: what had arrived before the failure stays finished") {
  CHECK(run_world(2, [](Member& m) {
          Buffer buffer(m.e, message(0, 1, 0, 100));
          Completion& first = m.armed(1);
          m.t.require_ok(m.rank() == 0 ? m.send(1, buffer.all(), first) : m.recv(0, buffer.all(), first),
                         "post");
          m.t.require_ok(m.progress_until(first), "finish");
          m.e.abort(Code::timed_out);
          m.t.expect_equal(first.code(), Code::ok, "the finished work");
          m.t.expect(buffer.bytes() == message(0, 1, 0, 100), "its bytes");
        }) == "");
}

TEST_CASE("A1: abort finishes every posted work with its code before it returns, and may be called again") {
  CHECK(run_world(2, [](Member& m) {
          if (m.rank() == 1) return m.meet();
          Buffer buffer(m.e, 20'000'000);
          Completion& done = m.armed(3);
          m.t.require_ok(m.send(1, buffer.all(), done), "post");
          m.t.require_ok(m.send(1, buffer.part(0, 10), done), "post");
          m.t.require_ok(m.recv(1, buffer.part(10, 10), done), "post");
          m.e.abort(Code::timed_out);
          m.t.expect(done.done(), "all have finished");
          m.t.expect_equal(done.code(), Code::timed_out, "their code");
          m.t.expect_equal(m.e.failure().code(), Code::timed_out, "the endpoint's failure");
          m.e.abort(Code::aborted);
          m.t.expect_equal(m.e.failure().code(), Code::timed_out, "the first abort counts");
          m.t.expect_equal(m.e.progress(milliseconds(10'000)).code(), Code::timed_out,
                           "progress does not wait");
          m.meet();
        }) == "");
}

// One side aborts somewhere in a large transfer and uses its memory for something else at once.
void abort_in_the_middle(Member& m, Rank aborter, Verb verb, test::Random& random) {
  const std::size_t bytes = 8U << 20U;
  const Bytes content = message(0, 1, 0, bytes);
  Buffer buffer(m.e, m.rank() == 0 ? content : Bytes(bytes));
  const Slice slice = buffer.all();
  Completion& done = m.armed(1);
  const Reduction reduction{.type = DataType::uint8, .op = ReduceOp::bit_or};
  m.t.require_ok(m.post({.verb = m.rank() == 0 ? Verb::send : verb,
                         .peer = 1 - m.rank(),
                         .local = {&slice, 1},
                         .reduction = reduction,
                         .done = &done}),
                 "post");
  m.meet();
  if (m.rank() != aborter) {
    (void)m.progress_until(done);
    m.t.expect(done.done(), "the other side is told");
    if (m.rank() == 1 && done.code() == Code::ok)
      m.t.expect(buffer.bytes() == content, "whole when it says so");
    return m.meet();
  }
  for (std::uint64_t turns = random.below(12); turns > 0; --turns) (void)m.e.progress(nanoseconds::zero());
  m.e.abort(Code::aborted);
  std::fill(buffer.bytes().begin(), buffer.bytes().end(), kUntouched);
  m.meet();
  m.t.expect(all_are(buffer.bytes(), kUntouched), "nobody writes to it any more");
}

TEST_CASE("A2: after abort no loaned byte is read or written") {
  const std::uint64_t seed = test::test_seed();
  for (std::uint64_t round = 0; round < 3; ++round)
    for (const Rank aborter : {0, 1})
      for (const Verb verb : {Verb::recv, Verb::recv_reduce})
        CHECK(run_world(2, [&](Member& m) {
                test::Random random(seed + round);
                abort_in_the_middle(m, aborter, verb, random);
              }) == "");
}

TEST_CASE("A3: destroying an endpoint is an abort") {
  const auto backend = make_backend();
  AddressBook addresses(2);
  test::Meeting meeting(2);
  const auto failures = test::run_as_threads(2, [&](test::RankTest& t) {
    const auto transport = backend->transport_for(t.rank());
    auto endpoint = transport->open(options_for(t.rank(), 2));
    t.require_ok(endpoint, "open");
    addresses[static_cast<std::size_t>(t.rank())] = (*endpoint)->address();
    t.require(meeting.arrive_and_wait(soon()), "both have opened");
    t.require_ok((*endpoint)->connect(addresses, std::array{1 - t.rank()}, soon()), "connect");
    std::optional<Buffer> buffer(std::in_place, **endpoint, std::size_t{1000});
    const Slice slice = buffer->all();
    Completion done;
    done.arm(1);
    const Work work{.verb = Verb::recv, .peer = 1 - t.rank(), .local = {&slice, 1}, .done = &done};
    t.require_ok((*endpoint)->post({&work, 1}, {}), "post");
    if (t.rank() == 1) t.require(meeting.arrive_and_wait(soon()), "rank 0 has gone");
    *endpoint = nullptr;
    buffer.reset();
    t.expect(done.done(), "the work has finished");
    t.expect_equal(done.code(), Code::aborted, "its code");
    if (t.rank() == 0) t.require(meeting.arrive_and_wait(soon()), "rank 0 has gone");
  });
  CHECK(test::all_of(failures) == "");
}

}  // namespace
}  // namespace rondel::conformance
