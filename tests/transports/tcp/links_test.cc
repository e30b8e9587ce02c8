// SPDX-License-Identifier: Apache-2.0
// Links at rest: they keep nobody awake who waits for another rank, and a forked child does not hold them
// open.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "tests/support/clocks.h"
#include "tests/transports/tcp/world.h"

namespace rondel::tcp::test {

TEST_CASE("waiting for a rank that is late costs no core while a connected one sends already") {
  const auto secret = Secret::generate();
  const OneRank zero = open_rank(*secret, 0, 3);
  const OneRank one = open_rank(*secret, 1, 3);
  const std::vector<Bytes> addresses{zero.endpoint->address(), one.endpoint->address(),
                                     open_rank(*secret, 2, 3).endpoint->address()};
  const Rank first = 0;
  const Rank second = 1;
  const Rank late = 2;
  const auto soon = Deadline::in(std::chrono::seconds(5));
  Status answered;
  std::thread other([&] { answered = one.endpoint->connect(addresses, std::span(&first, 1), soon); });
  const Status dialled = zero.endpoint->connect(addresses, std::span(&second, 1), soon);
  other.join();
  REQUIRE(dialled.text() == "ok");
  REQUIRE(answered.text() == "ok");

  std::vector<std::byte> bytes(64 << 10);  // more than a link reads ahead
  const Registration region(MemorySpan{bytes.data(), bytes.size()});
  const Slice slice{&region, 0, bytes.size()};
  Completion received;
  received.arm(1);
  Work recv{Verb::recv, 1, {&slice, 1}, {}, {}, {}, &received};
  REQUIRE(zero.endpoint->post({&recv, 1}, {}).ok());
  // Long enough for it to leave off spinning and to have its link watched.
  REQUIRE(zero.endpoint->progress(std::chrono::milliseconds(100)).ok());
  Completion sent;
  sent.arm(2);
  const std::array sends{Work{Verb::send, 0, {&slice, 1}, {}, {}, {}, &sent},
                         Work{Verb::send, 0, {&slice, 1}, {}, {}, {}, &sent}};
  REQUIRE(one.endpoint->post(sends, {}).ok());
  while (!sent.done() && !soon.passed()) REQUIRE(one.endpoint->progress({}).ok());
  while (!received.done() && !soon.passed()) REQUIRE(zero.endpoint->progress({}).ok());

  const auto before = rondel::test::cpu_time(CLOCK_THREAD_CPUTIME_ID);
  const Status waited =
      zero.endpoint->connect(addresses, std::span(&late, 1), Deadline::in(std::chrono::milliseconds(600)));
  CHECK(waited.code() == Code::timed_out);
  CHECK(waited.failure().peer == late);
  CHECK(rondel::test::cpu_time(CLOCK_THREAD_CPUTIME_ID) - before < std::chrono::milliseconds(200));
}

TEST_CASE("a program that a rank starts inherits none of its sockets") {
  const auto secret = Secret::generate();
  const OneRank zero = open_rank(*secret, 0, 2);
  const OneRank one = open_rank(*secret, 1, 2);
  for (const Status& status :
       connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::seconds(5))))
    REQUIRE(status.text() == "ok");
  int sockets = 0;
  for (int fd = 3; fd < 256; ++fd) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0 || !S_ISSOCK(facts.st_mode)) continue;
    ++sockets;
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(sockets == 4);  // two listeners and both ends of the link
}

TEST_CASE("a child forked from a rank does not hide that the rank is gone") {
  const auto secret = Secret::generate();
  const OneRank zero = open_rank(*secret, 0, 2);
  OneRank one = open_rank(*secret, 1, 2);
  for (const Status& status :
       connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::seconds(5))))
    REQUIRE(status.text() == "ok");
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  REQUIRE(child > 0);
  one.endpoint.reset();
  std::byte byte{};
  const Registration region(MemorySpan{&byte, 1});
  const Slice slice{&region, 0, 1};
  Completion done;
  done.arm(1);
  Work recv{Verb::recv, 1, {&slice, 1}, {}, {}, {}, &done};
  REQUIRE(zero.endpoint->post({&recv, 1}, {}).ok());
  const Deadline deadline = Deadline::in(std::chrono::seconds(2));
  Status status;
  while (status.ok() && !deadline.passed())
    status = zero.endpoint->progress(std::chrono::milliseconds(50)).status();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(status.code() == Code::peer_lost);
  CHECK(status.failure().peer == 1);
}

}  // namespace rondel::tcp::test
