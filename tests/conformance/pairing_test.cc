// SPDX-License-Identifier: Apache-2.0
// The contract's rules on pairing, batches, loans, what done means, and room.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>

#include "tests/conformance/cuts.h"
#include "tests/conformance/world.h"
#include "tests/support/seed.h"

namespace rondel::conformance {
namespace {

// Sends messages 0 .. count-1 to `peer`, and receives as many from it, with `window` of each in flight.
void stream_of_messages(Member& m, Rank peer, std::uint64_t count, std::uint32_t window,
                        const std::function<std::size_t(std::uint64_t)>& bytes_of) {
  std::deque<Buffer> out;
  std::deque<Buffer> in;
  std::deque<Completion*> done;
  const auto retire = [&](std::uint64_t number) {
    m.t.require_ok(m.progress_until(*done.front()), "a pair of messages passes");
    m.t.require(in.front().bytes() == message(peer, m.rank(), number, bytes_of(number)),
                "messages keep their order");
    done.pop_front();
    out.pop_front();
    in.pop_front();
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i >= window) retire(i - window);
    out.emplace_back(m.e, message(m.rank(), peer, i, bytes_of(i)));
    in.emplace_back(m.e, bytes_of(i));
    done.push_back(&m.armed(2));
    m.t.require_ok(m.recv(peer, in.back().all(), *done.back()), "post a receive");
    m.t.require_ok(m.send(peer, out.back().all(), *done.back()), "post a send");
  }
  for (std::uint64_t i = count - std::min<std::uint64_t>(window, count); i < count; ++i) retire(i);
}

TEST_CASE("P1: the n-th send meets the n-th receive, over many works") {
  CHECK(run_world(2, [](Member& m) {
          const auto bytes_of = [](std::uint64_t i) { return static_cast<std::size_t>(1 + i * 37 % 5000); };
          stream_of_messages(m, 1 - m.rank(), 2000, m.e.capabilities().max_in_flight, bytes_of);
        }) == "");
}

TEST_CASE("P2: the two sides may cut a work into slices at different places") {
  const std::uint64_t seed = test::test_seed();
  CHECK(run_world(2, [seed](Member& m) {
          test::Random random(seed + static_cast<std::uint64_t>(m.rank()));
          test::Random sizes(seed);  // the same on both ranks
          for (int round = 0; round < 60; ++round) {
            const std::size_t bytes = 1 + sizes.below(round % 10 == 0 ? 3'000'000 : 300);
            const Rank peer = 1 - m.rank();
            const Bytes content = message(m.rank(), peer, static_cast<std::uint64_t>(round), bytes);
            CutBuffer out(m.e, bytes, random);
            CutBuffer in(m.e, bytes, random);
            out.scatter(content);
            Completion& done = m.armed(2);
            const std::array works{
                Work{.verb = Verb::recv, .peer = peer, .local = in.slices(), .done = &done},
                Work{.verb = Verb::send, .peer = peer, .local = out.slices(), .done = &done}};
            m.t.require_ok(m.e.post(works, {}), "post cut works");
            m.t.require_ok(m.progress_until(done), "finish cut works");
            m.t.require(in.gather() == message(peer, m.rank(), static_cast<std::uint64_t>(round), bytes),
                        "the bytes arrive in their order");
            m.t.require(in.gaps_are_untouched(), "bytes between slices stay as they were");
          }
        }) == "");
}

TEST_CASE("P3: works of zero bytes pair like any other") {
  CHECK(run_world(2, [](Member& m) {
          const Rank peer = 1 - m.rank();
          Completion& empty = m.armed(4);
          const std::array works{Work{.verb = Verb::send, .peer = peer, .label = {{1, 2}}, .done = &empty},
                                 Work{.verb = Verb::recv, .peer = peer, .label = {{1, 2}}, .done = &empty}};
          m.t.require_ok(m.e.post(works, {}), "post works without slices");
          Buffer holder(m.e, 8);
          const Slice empty_slice = holder.part(3, 0);
          m.t.require_ok(m.send(peer, empty_slice, empty), "post an empty slice");
          m.t.require_ok(m.recv(peer, empty_slice, empty), "post an empty slice");
          m.t.require_ok(m.progress_until(empty), "finish empty works");
          m.exchange(peer);
        }) == "");
}

TEST_CASE("P4: peers and directions are independent of one another") {
  // Rank 1 never serves rank 0 until rank 0 has finished with rank 2.
  test::Event finished;
  CHECK(run_world(3, [&finished](Member& m) {
          Buffer to_late(m.e, message(0, 1, 5, 2'000'000));
          if (m.rank() == 0) {
            Completion& late = m.armed(1);
            m.t.require_ok(m.send(1, to_late.all(), late), "a send that has to wait");
            for (std::uint64_t i = 0; i < 20; ++i) m.exchange(2, i);
            finished.set();
            m.t.require_ok(m.progress_until(late), "the late send");
          } else if (m.rank() == 2) {
            for (std::uint64_t i = 0; i < 20; ++i) m.exchange(0, i);
          } else {
            m.t.require(finished.wait(soon()), "rank 0 finishes with rank 2 while rank 1 is away");
            Buffer in(m.e, 2'000'000);
            Completion& done = m.armed(1);
            m.t.require_ok(m.recv(0, in.all(), done), "the late receive");
            m.t.require_ok(m.progress_until(done), "the late receive");
            m.t.expect(in.bytes() == to_late.bytes(), "the late bytes");
          }
        }) == "");
}

TEST_CASE("B1: works of one batch progress together, whatever their order in it") {
  CHECK(run_world(3, [](Member& m) {
          // Everybody sends to and receives from everybody, large enough that nobody can send without
          // receiving.
          const std::size_t bytes = (8U << 20U) + 3;
          const auto peers = everyone_but(m.rank(), m.size());
          std::deque<Buffer> buffers;
          std::deque<Slice> slices;
          std::vector<Work> works;
          Completion& done = m.armed(static_cast<std::uint32_t>(2 * peers.size()));
          for (const Rank peer : peers) {
            slices.push_back(buffers.emplace_back(m.e, message(m.rank(), peer, 0, bytes)).all());
            works.push_back({.verb = Verb::send, .peer = peer, .local = {&slices.back(), 1}, .done = &done});
            slices.push_back(buffers.emplace_back(m.e, bytes).all());
            works.push_back({.verb = Verb::recv, .peer = peer, .local = {&slices.back(), 1}, .done = &done});
          }
          if (m.rank() == 1) std::reverse(works.begin(), works.end());
          m.t.require_ok(m.e.post(works, {}), "post one batch");
          m.t.require_ok(m.progress_until(done), "the batch");
          for (std::size_t i = 0; i < peers.size(); ++i)
            m.t.expect(buffers[2 * i + 1].bytes() == message(peers[i], m.rank(), 0, bytes),
                       "large works arrive");
          m.t.expect_equal(m.e.bytes_received(), std::uint64_t{2 * bytes}, "payload bytes received");
          m.t.expect_equal(m.e.bytes_sent(), std::uint64_t{2 * bytes}, "payload bytes sent");
        }) == "");
}

TEST_CASE("B2: post copies the works and their lists of slices") {
  CHECK(run_world(2, [](Member& m) {
          const Rank peer = 1 - m.rank();
          Buffer out(m.e, message(m.rank(), peer, 0, 1000));
          Buffer in(m.e, 1000);
          Buffer decoy(m.e, 1000);
          Completion& done = m.armed(2);
          std::array slices{out.all(), in.all()};
          std::array works{Work{.verb = Verb::send, .peer = peer, .local = {&slices[0], 1}, .done = &done},
                           Work{.verb = Verb::recv, .peer = peer, .local = {&slices[1], 1}, .done = &done}};
          m.t.require_ok(m.e.post(works, {}), "post");
          slices = {decoy.part(0, 7), decoy.part(7, 1)};
          works = {};
          m.t.require_ok(m.progress_until(done), "finish");
          m.t.expect(in.bytes() == message(peer, m.rank(), 0, 1000), "the posted slices were used");
        }) == "");
}

TEST_CASE("B3: a completion finishes inside progress, never inside post") {
  test::Event sent;
  CHECK(run_world(2, [&sent](Member& m) {
          Buffer buffer(m.e, message(0, 1, 0, 100));
          Completion& done = m.armed(1);
          if (m.rank() == 0) {
            m.t.require_ok(m.send(1, buffer.all(), done), "post a send");
            m.t.expect(!done.done(), "post does not finish a send");
            sent.set();
          } else {
            m.t.require(sent.wait(soon()), "the send is posted");
            m.t.require_ok(m.recv(0, buffer.all(), done), "post a receive");
            m.t.expect(!done.done(), "post does not finish a receive");
          }
          m.t.require_ok(m.progress_until(done), "finish");
          m.t.expect_equal(done.code(), Code::ok, "the completion's code");
        }) == "");
}

TEST_CASE("B4: a batch that breaks a rule is refused whole, and the endpoint stays healthy") {
  CHECK(run_world(2, [](Member& m) {
          const Rank peer = 1 - m.rank();
          Buffer buffer(m.e, 64);
          Completion& never = m.armed(2);
          const Slice good = buffer.all();
          const Slice outside{good.region, 60, 5};
          const Slice unregistered{nullptr, 0, 4};
          const Slice odd = buffer.part(0, 6);
          const Work fine{.verb = Verb::send, .peer = peer, .local = {&good, 1}, .done = &never};
          const auto broken = [&never](Work work) {
            work.done = &never;
            return work;
          };
          const std::array bad{
              broken({.verb = Verb::send, .peer = peer, .local = {&outside, 1}}),
              broken({.verb = Verb::send, .peer = peer, .local = {&unregistered, 1}}),
              broken({.verb = Verb::send, .peer = m.rank(), .local = {&good, 1}}),
              broken({.verb = Verb::send, .peer = 99, .local = {&good, 1}}),
              broken({.verb = Verb::recv_reduce, .peer = peer, .local = {&odd, 1}}),
              broken({.verb = Verb::recv_reduce, .peer = peer, .local = {&good, 1}, .other = {&odd, 1}}),
              broken({.verb = Verb::recv_reduce,
                      .peer = peer,
                      .local = {&good, 1},
                      .reduction = {.type = DataType::float32, .op = ReduceOp::bit_and}}),
              Work{.verb = Verb::send, .peer = peer, .local = {&good, 1}},
          };
          for (std::size_t i = 0; i < bad.size(); ++i) {
            const std::array works{fine, bad[i]};
            m.t.expect_equal(m.e.can_post(works).code(), Code::invalid_argument,
                             "bad work " + std::to_string(i));
            m.t.expect_equal(m.e.post(works, {}).code(), Code::invalid_argument,
                             "bad work " + std::to_string(i));
          }
          m.t.expect(m.e.failure().ok(), "the endpoint is healthy");
          m.exchange(peer);
          m.t.expect(!never.done(), "nothing of it was posted");
        }) == "");
}

TEST_CASE("D1: the source of a finished send may be overwritten") {
  CHECK(run_world(2, [](Member& m) {
          const std::size_t bytes = 1'000'000;
          for (std::uint64_t round = 0; round < 10; ++round) {
            Buffer buffer(m.e, m.rank() == 0 ? message(0, 1, round, bytes) : Bytes(bytes));
            Completion& done = m.armed(1);
            m.t.require_ok(m.rank() == 0 ? m.send(1, buffer.all(), done) : m.recv(0, buffer.all(), done),
                           "post");
            m.t.require_ok(m.progress_until(done), "finish");
            if (m.rank() == 0)
              std::fill(buffer.bytes().begin(), buffer.bytes().end(), std::byte{0xee});
            else
              m.t.require(buffer.bytes() == message(0, 1, round, bytes), "the bytes as they were before");
          }
        }) == "");
}

TEST_CASE("D2: a send leaves its source as it was") {
  CHECK(run_world(2, [](Member& m) {
          const Bytes content = message(m.rank(), 1 - m.rank(), 0, 70'001);
          Buffer out(m.e, content);
          Buffer in(m.e, content.size());
          Completion& done = m.armed(2);
          m.t.require_ok(m.send(1 - m.rank(), out.all(), done), "post");
          m.t.require_ok(m.recv(1 - m.rank(), in.all(), done), "post");
          m.t.require_ok(m.progress_until(done), "finish");
          m.t.expect(out.bytes() == content, "the source is unchanged");
        }) == "");
}

void send_and_go(std::size_t bytes) {
  const auto backend = make_backend();
  AddressBook addresses(2);
  test::Meeting meeting(2);
  test::Event destroyed;
  const auto failures = test::run_as_threads(2, [&](test::RankTest& t) {
    std::deque<Completion> completions;
    const auto transport = backend->transport_for(t.rank());
    auto endpoint = transport->open(options_for(t.rank(), 2));
    t.require_ok(endpoint, "open");
    addresses[static_cast<std::size_t>(t.rank())] = (*endpoint)->address();
    t.require(meeting.arrive_and_wait(soon()), "both have opened");
    const std::array peer{1 - t.rank()};
    t.require_ok((*endpoint)->connect(addresses, peer, soon()), "connect");
    Member m(t, *transport, **endpoint, meeting, completions);
    std::optional<Buffer> buffer(std::in_place, m.e, t.rank() == 0 ? message(0, 1, 0, bytes) : Bytes(bytes));
    Completion& done = m.armed(1);
    if (t.rank() == 0) {
      t.require_ok(m.send(1, buffer->all(), done), "post");
      t.require_ok(m.progress_until(done), "finish");
      buffer.reset();
      *endpoint = nullptr;
      return destroyed.set();
    }
    // Where sends finish without the receiver's help, the sender is gone before the receive is posted.
    (void)destroyed.wait(Deadline::in(std::chrono::milliseconds(100)));
    t.require_ok(m.recv(0, buffer->all(), done), "post");
    t.require_ok(m.progress_until(done), "finish");
    t.expect(buffer->bytes() == message(0, 1, 0, bytes), "the bytes arrive");
  });
  CHECK(test::all_of(failures) == "");
}

TEST_CASE("D3: a finished send arrives although its endpoint is destroyed") {
  for (const std::size_t bytes : {3000U, 8U, 0U}) send_and_go(bytes);
}

TEST_CASE("O1: max_in_flight works fit in each direction with each peer, and one more is refused") {
  CHECK(run_world(2, [](Member& m) {
          const Rank peer = 1 - m.rank();
          const std::uint32_t room = m.e.capabilities().max_in_flight;
          Buffer out(m.e, message(m.rank(), peer, 0, room * 10));
          Buffer in(m.e, room * 10);
          Completion& done = m.armed(2 * room);
          Completion& never = m.armed(1);
          std::deque<Slice> slices;
          std::vector<Work> works;
          for (std::uint32_t i = 0; i < room; ++i) {
            slices.push_back(in.part(i * 10, 10));
            works.push_back({.verb = Verb::recv, .peer = peer, .local = {&slices.back(), 1}, .done = &done});
          }
          std::vector<Work> too_many = works;
          too_many.push_back({.verb = Verb::recv, .peer = peer, .local = {&slices[0], 1}, .done = &never});
          m.t.expect_equal(m.e.post(too_many, {}).code(), Code::invalid_argument, "one too many in a batch");
          m.t.require_ok(m.e.post(works, {}), "as many as fit");
          m.t.expect_equal(m.recv(peer, slices[0], never).code(), Code::invalid_argument,
                           "one too many behind it");
          m.meet();  // until here no receive can have finished
          for (std::uint32_t i = 0; i < room; ++i)
            m.t.require_ok(m.send(peer, out.part(i * 10, 10), done), "sends have room of their own");
          m.t.require_ok(m.progress_until(done), "all of them");
          m.t.expect(in.bytes() == message(peer, m.rank(), 0, room * 10), "all bytes, in order");
          m.t.expect(!never.done(), "what was refused is not posted");
          m.exchange(peer);
        }) == "");
}

TEST_CASE("B4: a batch to several peers is refused whole when there is no room for one of them") {
  CHECK(run_world(3, [](Member& m) {
          const std::uint32_t room = m.e.capabilities().max_in_flight;
          for (const Rank step : {1, 2}) {
            const Rank full = (m.rank() + step) % 3, other = (m.rank() + 2 * step) % 3;
            Buffer in(m.e, 16), out(m.e, message(m.rank(), full, 0, 16));
            Completion& done = m.armed(room);
            Completion& never = m.armed(2);
            for (std::uint32_t i = 0; i < room; ++i) m.t.require_ok(m.recv(full, in.all(), done), "it fits");
            const Slice local[] = {out.all(), in.all()};
            const std::array works{
                Work{.verb = Verb::send, .peer = other, .local = {&local[0], 1}, .done = &never},
                Work{.verb = Verb::recv, .peer = full, .local = {&local[1], 1}, .done = &never}};
            m.t.expect_equal(m.e.can_post(works).code(), Code::invalid_argument, "no room, before");
            m.t.expect_equal(m.e.post(works, {}).code(), Code::invalid_argument, "no room");
            m.meet();
            Completion& sent = m.armed(room);
            // `other` has this rank as its `full`.
            for (std::uint32_t i = 0; i < room; ++i)
              m.t.require_ok(m.send(other, out.all(), sent), "sends have room");
            m.t.require_ok(m.progress_until(done), "all arrive");
            m.t.require_ok(m.progress_until(sent), "all leave");
            m.t.expect(!never.done() && m.e.failure().ok(), "nothing of it was posted");
            m.meet();
          }
        }) == "");
}

TEST_CASE("O2: max_slices slices fit in a work, and one more is refused") {
  CHECK(run_world(2, [](Member& m) {
          const Rank peer = 1 - m.rank();
          const std::uint32_t limit = m.e.capabilities().max_slices;
          Buffer out(m.e, message(m.rank(), peer, 0, limit));
          Buffer in(m.e, limit);
          std::vector<Slice> from;
          std::vector<Slice> to;
          for (std::uint32_t i = 0; i < limit; ++i) {
            from.push_back(out.part(i, 1));
            to.push_back(in.part(i, 1));
          }
          Completion& done = m.armed(2);
          const std::array works{Work{.verb = Verb::send, .peer = peer, .local = from, .done = &done},
                                 Work{.verb = Verb::recv, .peer = peer, .local = to, .done = &done}};
          m.t.require_ok(m.e.post(works, {}), "as many slices as allowed");
          m.t.require_ok(m.progress_until(done), "finish");
          m.t.expect(in.bytes() == message(peer, m.rank(), 0, limit), "every slice arrives");
          from.push_back(out.part(0, 1));
          const Work large{.verb = Verb::send, .peer = peer, .local = from, .done = &m.armed(1)};
          m.t.expect_equal(m.post(large).code(), Code::invalid_argument, "one slice too many");
          m.exchange(peer);
        }) == "");
}

}  // namespace
}  // namespace rondel::conformance
