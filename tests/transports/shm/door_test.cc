// SPDX-License-Identifier: Apache-2.0
// Strangers at the door are sent away and disturb nobody; who is not what it says is refused.
#include "transports/shm/door.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/support/process_world.h"
#include "tests/transports/shm/world.h"

namespace rondel::shm::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

UniqueFd call(const DoorAddress& where) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, where.name.data(), where.name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + where.name.size());
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  return socket;
}

Note hello_to(const DoorAddress& where, Rank from) {
  Note note = make_note(NoteKind::hello);
  std::copy(where.token.begin(), where.token.end(), std::begin(note.token));
  note.rank = from;
  return note;
}

/// Whether the two still connect and talk, with whatever waits at rank 1's door.
void check_they_meet(Endpoint& zero, Endpoint& one) {
  for (const Status& status : connect_both(zero, one, Deadline::in(seconds(10))))
    CHECK(status.text() == "ok");
}

}  // namespace

TEST_CASE("a stranger that says nothing, nonsense, or too little does not disturb the start") {
  const auto zero = open_rank(0), one = open_rank(1);
  const DoorAddress door = *decode_door_address(one->address());
  const UniqueFd silent = call(door);
  const UniqueFd mad = call(door);
  REQUIRE(::send(mad.get(), "GET / HTTP/1.0\r\n\r\n", 18, 0) == 18);
  const UniqueFd brief = call(door);
  REQUIRE(::send(brief.get(), "R", 1, 0) == 1);
  { const UniqueFd gone = call(door); }
  check_they_meet(*zero, *one);
}

TEST_CASE("a hundred strangers do not disturb the start") {
  const auto zero = open_rank(0), one = open_rank(1);
  const DoorAddress door = *decode_door_address(one->address());
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(call(door));
    REQUIRE(::send(strangers.back().get(), "hello", 5, 0) == 5);
  }
  check_they_meet(*zero, *one);
}

TEST_CASE("a wrong token, another version, a wrong rank and bad memory are refused") {
  const auto zero = open_rank(0), one = open_rank(1);
  const DoorAddress door = *decode_door_address(one->address());
  auto segment = SegmentHold::create();
  REQUIRE(segment.ok());
  std::vector<UniqueFd> callers;
  const auto say = [&](const Note& note, int fd) {
    callers.push_back(call(door));
    REQUIRE(send_note(callers.back().get(), note, fd));
  };
  Note wrong_token = hello_to(door, 0);
  wrong_token.token[5] ^= std::byte{1};
  say(wrong_token, segment->fd());
  Note other_version = hello_to(door, 0);
  ++other_version.version;
  say(other_version, segment->fd());
  for (const Rank rank : {-1, 1, 2, 1000}) say(hello_to(door, rank), segment->fd());
  say(hello_to(door, 0), -1);
  for (const bool sealed : {false, true}) {  // where it is sealed it is too small
    const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(memory.get(), 4096) == 0);
    REQUIRE((!sealed || ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0));
    say(hello_to(door, 0), memory.get());
  }
  // None of them is taken for rank 0, and each is sent away.
  const std::vector<Bytes> addresses{zero->address(), one->address()};
  const Rank awaited = 0;
  CHECK(one->connect(addresses, {&awaited, 1}, Deadline::in(milliseconds(500))).code() == Code::timed_out);
  for (std::size_t i = 0; i < callers.size(); ++i) {
    CAPTURE(i);
    Note answer;
    CHECK(::recv(callers[i].get(), &answer, sizeof answer, MSG_DONTWAIT) == 0);
  }
  check_they_meet(*zero, *one);
}

TEST_CASE("no descriptor left: whoever lacks it says so at once, with the limit") {
  const int spare = GENERATE(0, 1, 2);
  const Rank poor = GENERATE(0, 1);
  CAPTURE(spare, poor);
  rondel::test::ProcessWorld world(
      1, [spare, poor](rondel::test::RankTest& test, const rondel::test::Voice&) {
        const auto zero = open_rank(0), one = open_rank(1);
        const std::vector<Bytes> addresses{zero->address(), one->address()};
        const Rank first = 0, second = 1;
        if (poor == 1)
          test.require_ok(zero->connect(addresses, {&second, 1}, Deadline::in(seconds(5))), "dial");
        const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        const auto limit = static_cast<rlim_t>(next.get() + spare);
        const rlimit few{limit, limit};
        ::setrlimit(RLIMIT_NOFILE, &few);
        const auto begun = Deadline::Clock::now();
        const Status status = poor == 0 ? zero->connect(addresses, {&second, 1}, Deadline::in(seconds(5)))
                                        : one->connect(addresses, {&first, 1}, Deadline::in(seconds(5)));
        test.expect(Deadline::Clock::now() - begun < seconds(2), "at once");
        if (status.ok()) return;  // there were enough
        test.expect(status.code() == Code::out_of_resources, status.text());
        test.expect(status.text().find("ulimit -n") != std::string::npos, status.text());
      });
  const auto ending = world.wait(0, Deadline::in(seconds(20)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("no descriptor left for a peer's board: whoever lacks it says so at once, with the limit") {
  struct Never final : Awaited {
    explicit Never(LoadStore& of) : memory(of) {}
    bool ready() const override { return memory.board_of(0) != nullptr; }
    bool waits_for(Rank peer) const override { return peer == 0; }
    LoadStore& memory;
  };
  const bool sleeps = GENERATE(false, true);
  rondel::test::ProcessWorld world(1, [sleeps](rondel::test::RankTest& test, const rondel::test::Voice&) {
    Pair pair = connected_pair({.spin = sleeps ? seconds(0) : seconds(1)});
    LoadStore& memory = *pair.one->load_store();
    test.require_ok(memory.open_board(), "own board");
    test.require_ok(pair.zero->load_store()->open_board(), "the peer's board");
    const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const rlimit few{static_cast<rlim_t>(next.get()), static_cast<rlim_t>(next.get())};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const Never never(memory);
    memory.await(&never);
    const auto begun = Deadline::Clock::now();
    const auto moved = pair.one->progress(seconds(10));
    test.expect(Deadline::Clock::now() - begun < seconds(2), "at once");
    test.expect_equal(moved.code(), Code::out_of_resources, "code");
    const std::string text = pair.one->failure().text();
    test.expect(text.find("rank 0") != std::string::npos && text.find("ulimit -n") != std::string::npos,
                text);
  });
  const auto ending = world.wait(0, Deadline::in(seconds(20)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("what a peer said before it went is heard, though it left unread what it was told") {
  Pair pair = connected_pair();
  REQUIRE(pair.one->load_store()->open_board().ok());  // which zero never takes
  REQUIRE(pair.zero->load_store()->open_board().ok());
  pair.zero.reset();
  CHECK(pair.one->load_store()->board_of(0) != nullptr);
}

TEST_CASE("showing a board to a peer that has gone names the peer") {
  Pair pair = connected_pair();
  pair.zero.reset();
  const Status status = pair.one->load_store()->open_board();
  CHECK(status.code() == Code::peer_lost);
  CHECK(status.failure().peer == 0);
}

TEST_CASE(
    "a peer that goes while it is awaited is lost, whether this rank polls, sleeps or waits for a "
    "descriptor") {
  struct ForPeer final : Awaited {
    bool ready() const override { return false; }
    bool waits_for(Rank peer) const override { return peer == 0; }
  };
  const bool by_descriptor = GENERATE(false, true);
  const bool sleeps = GENERATE(false, true);
  Pair pair = connected_pair({.spin = sleeps ? seconds(0) : seconds(1)});
  REQUIRE(pair.one->load_store()->open_board().ok());
  const ForPeer awaited;
  pair.one->load_store()->await(&awaited);
  CHECK(*pair.one->progress(std::chrono::nanoseconds::zero()) == 0);
  std::thread peer([&pair] { pair.zero.reset(); });
  const auto begun = Deadline::Clock::now();
  if (by_descriptor) {
    while (pair.one->failure().ok() && Deadline::Clock::now() - begun < seconds(20)) {
      pollfd ready{pair.one->wait_descriptor(), POLLIN, 0};
      CHECK(::poll(&ready, 1, 10'000) == 1);
      (void)pair.one->progress(std::chrono::nanoseconds::zero());
    }
  } else {
    while (pair.one->progress(seconds(10)).ok()) {
    }
  }
  peer.join();
  CHECK(Deadline::Clock::now() - begun < seconds(5));
  CHECK(pair.one->failure().code() == Code::peer_lost);
  CHECK(pair.one->failure().failure().peer == 0);
  pair.one->load_store()->await(nullptr);
}

TEST_CASE("nothing of a job has a name in the file system") {
  const auto names = [] {
    std::vector<std::string> found;
    if (!std::filesystem::exists("/dev/shm")) return found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) found.push_back(entry.path());
    return found;
  };
  const auto before = names();
  Pair pair = connected_pair();
  CHECK(names() == before);
}

}  // namespace rondel::shm::test
