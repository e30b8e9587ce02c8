// SPDX-License-Identifier: Apache-2.0
#include "lib/liveness/member.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "lib/store/tcp_server.h"
#include "tests/support/clocks.h"

namespace rondel::liveness {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr Context kWorld = 77;

struct Server {
  Secret secret = *Secret::generate();
  std::unique_ptr<TcpServer> server;

  explicit Server(const TcpServerOptions& options = {})
      : server(std::move(*TcpServer::start(options, secret))) {}
  std::unique_ptr<Member> connect() const {
    auto member = Member::connect(server->address(), secret, Deadline::in(seconds(20)));
    if (!member.ok()) FAIL(member.status().text());
    return std::move(*member);
  }
  bool await_arrivals(std::size_t count) const {
    const auto deadline = Deadline::in(seconds(20));
    while (server->arrived_ranks().size() < count && !deadline.passed()) std::this_thread::yield();
    return server->arrived_ranks().size() == count;
  }
};

/// A rank in a process of its own that joins kWorld and then waits to be killed. Forked before there are
/// threads; told by a pipe where the server is.
class Rank1 {
 public:
  explicit Rank1(bool forks = false) : forks_(forks) {
    REQUIRE(::pipe(orders_) == 0);
    REQUIRE(::pipe(answers_) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) live();
  }
  ~Rank1() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (const int fd : {orders_[0], orders_[1], answers_[0], answers_[1]}) ::close(fd);
  }
  Rank1(const Rank1&) = delete;
  Rank1& operator=(const Rank1&) = delete;

  void join(const Server& server) const {
    std::string order(reinterpret_cast<const char*>(server.secret.bytes().data()), Secret::kBytes);
    order += server.server->address();
    REQUIRE(::write(orders_[1], order.data(), order.size()) == static_cast<ssize_t>(order.size()));
    char joined = 0;
    REQUIRE(::read(answers_[0], &joined, 1) == 1);
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    REQUIRE(::waitpid(pid_, nullptr, WUNTRACED) == pid_);  // all its threads have stopped
  }

 private:
  [[noreturn]] void live() const {
    std::array<std::byte, 256> order{};
    const ssize_t got = ::read(orders_[0], order.data(), order.size());
    const auto secret = Secret::from_bytes(std::span(order).first(Secret::kBytes));
    const std::string address(reinterpret_cast<const char*>(order.data()) + Secret::kBytes,
                              static_cast<std::size_t>(got) - Secret::kBytes);
    auto member = Member::connect(address, *secret, Deadline::in(seconds(20)));
    if (!member.ok()) ::_exit(1);
    const auto watch = (*member)->join(kWorld, 1, 3, "nodeb");
    if (forks_) leave_a_child();
    static_cast<void>(!::write(answers_[1], "x", 1));
    for (;;) ::pause();
  }

  /// As a data loader does. The child lives until the test closes its pipe.
  void leave_a_child() const {
    if (::fork() != 0) return;
    ::close(orders_[1]);
    char nothing = 0;
    static_cast<void>(!::read(orders_[0], &nothing, 1));
    ::_exit(0);
  }

  const bool forks_;
  int orders_[2] = {-1, -1};
  int answers_[2] = {-1, -1};
  pid_t pid_ = -1;
};

TEST_CASE("a killed rank is known to the others in well under a second") {
  const Rank1 victim;
  const Server server;
  victim.join(server);
  const auto a = server.connect();
  const auto b = server.connect();
  const auto watch_a = a->join(kWorld, 0, 3, "nodea");
  const auto watch_b = b->join(kWorld, 2, 3, "nodec");
  REQUIRE(server.await_arrivals(3));
  const auto before = Deadline::Clock::now();
  victim.kill();
  REQUIRE(Member::await(*watch_a, Deadline::in(seconds(10))));
  REQUIRE(Member::await(*watch_b, Deadline::in(seconds(10))));
  CHECK(Deadline::Clock::now() - before < milliseconds(200));
  CHECK(watch_a->incident().code == Code::peer_lost);
  CHECK(watch_a->incident().guilty == 1);
  CHECK(watch_a->incident().host == "nodeb");
  CHECK(watch_a->incident().cause == "rank 1 (host nodeb) died: its process ended without leaving");
  CHECK(watch_b->incident().cause == watch_a->incident().cause);
}

TEST_CASE("a child that a rank forked does not hide the rank's death") {
  const Rank1 victim(true);
  const Server server;
  victim.join(server);
  const auto a = server.connect();
  const auto watch = a->join(kWorld, 0, 3, "nodea");
  REQUIRE(server.await_arrivals(2));
  const auto before = Deadline::Clock::now();
  victim.kill();
  REQUIRE(Member::await(*watch, Deadline::in(seconds(10))));
  CHECK(Deadline::Clock::now() - before < milliseconds(500));
  CHECK(watch->incident().guilty == 1);
}

TEST_CASE("a stopped rank is no incident until somebody waits in vain, and then named") {
  const Rank1 victim;
  const Server server;
  victim.join(server);
  const auto a = server.connect();
  const auto watch = a->join(kWorld, 0, 3, "nodea");
  REQUIRE(server.await_arrivals(2));
  victim.stop();
  watch->enter();
  a->overdue(kWorld, 1, 1, "allreduce");
  REQUIRE(Member::await(*watch, Deadline::in(seconds(10))));
  CHECK(watch->incident().code == Code::timed_out);
  CHECK(watch->incident().guilty == 1);
  CHECK(watch->incident().cause == "rank 1 (host nodeb) does not answer (stopped or unreachable)");
}

TEST_CASE("a rank that computes for too long is named with where it is") {
  const Server server;
  const auto a = server.connect();
  const auto b = server.connect();
  const auto watch_a = a->join(kWorld, 0, 2, "a");
  const auto watch_b = b->join(kWorld, 1, 2, "b");
  REQUIRE(server.await_arrivals(2));
  for (int i = 0; i < 17; ++i) watch_a->enter();
  for (int i = 0; i < 16; ++i) watch_b->enter();
  a->overdue(kWorld, 1, 17, "allreduce");
  REQUIRE(Member::await(*watch_a, Deadline::in(seconds(10))));
  CHECK(watch_a->incident().cause == "rank 1 (host b) has not entered allreduce #17; it is at #16");
  REQUIRE(Member::await(*watch_b, Deadline::in(seconds(10))));
  CHECK(watch_b->incident().cause == watch_a->incident().cause);
}

TEST_CASE("a rank that left is no incident, and named when its link is missed") {
  const Server server;
  const auto a = server.connect();
  auto b = server.connect();
  const auto watch_a = a->join(kWorld, 0, 2, "a");
  const auto watch_b = b->join(kWorld, 1, 2, "b");
  REQUIRE(server.await_arrivals(2));
  b->leave(watch_b);
  b.reset();
  CHECK_FALSE(watch_a->raised());
  a->suspect(kWorld, 1, "end of file");
  REQUIRE(Member::await(*watch_a, Deadline::in(seconds(10))));
  CHECK(watch_a->incident().code == Code::peer_left);
  CHECK(watch_a->incident().guilty == 1);
}

TEST_CASE("a report reaches every rank, its reporter too, and the first one stands") {
  const Server server;
  std::vector<std::unique_ptr<Member>> members;
  std::vector<std::shared_ptr<Watch>> watches;
  for (Rank rank = 0; rank < 4; ++rank) {
    members.push_back(server.connect());
    watches.push_back(members.back()->join(kWorld, rank, 4, "h"));
  }
  REQUIRE(server.await_arrivals(4));
  members[2]->report({kWorld, Code::mismatch, 3, "", "rank 3 has 8 elements, rank 2 has 9", ""});
  for (const auto& watch : watches) REQUIRE(Member::await(*watch, Deadline::in(seconds(10))));
  members[1]->report({kWorld, Code::aborted, 1, "", "second", ""});
  for (const auto& watch : watches) CHECK(watch->incident().cause == "rank 3 has 8 elements, rank 2 has 9");
  for (const auto& watch : watches) CHECK(watch->incident().host == "h");
}

TEST_CASE("incidents keep to their communicator") {
  const Server server;
  const auto a = server.connect();
  const auto b = server.connect();
  const auto a1 = a->join(1, 0, 2, "a");
  const auto a2 = a->join(2, 1, 2, "a");
  const auto b1 = b->join(1, 1, 2, "b");
  const auto b2 = b->join(2, 0, 2, "b");
  b->report({1, Code::aborted, 1, "", "only here", ""});
  REQUIRE(Member::await(*a1, Deadline::in(seconds(10))));
  CHECK_FALSE(a2->raised());
  CHECK_FALSE(b2->raised());
}

TEST_CASE("a lost server is raised on every watch, also on one joined later, and names its holder") {
  TcpServerOptions options;
  options.holder_rank = 0;
  options.holder_host = "nodea";
  Server server(options);
  const std::string address = server.server->address();
  const auto member = server.connect();
  const auto world = member->join(kWorld, 1, 2, "nodeb");
  const auto other = member->join(kWorld + 1, 0, 1, "nodeb");
  server.server.reset();
  REQUIRE(Member::await(*world, Deadline::in(seconds(10))));
  REQUIRE(Member::await(*other, Deadline::in(seconds(10))));
  CHECK(world->incident().code == Code::peer_lost);
  CHECK(world->incident().guilty == 0);
  CHECK(world->incident().cause.find("lost the job server at " + address + ", kept by rank 0 (host nodea)") ==
        0);
  CHECK(other->incident().guilty == kNoRank);
  const auto late = member->join(kWorld + 2, 0, 1, "nodeb");
  CHECK(late->raised());
  member->leave(late);
  member->report({kWorld, Code::aborted, 0, "", "to nobody", ""});
}

TEST_CASE("a member with another secret is refused") {
  const Server server;
  const auto member =
      Member::connect(server.server->address(), *Secret::generate(), Deadline::in(seconds(20)));
  CHECK(member.code() == Code::refused);
}

TEST_CASE("ranks arrive in the first communicator only") {
  const Server server;
  const auto a = server.connect();
  const auto b = server.connect();
  const auto w0 = a->join(kWorld, 5, 8, "a");
  REQUIRE(server.await_arrivals(1));
  const auto sub = b->join(kWorld + 1, 3, 8, "b");
  const auto w1 = b->join(kWorld, 2, 8, "b");
  REQUIRE(server.await_arrivals(2));
  CHECK(server.server->arrived_ranks() == std::vector<Rank>{2, 5});
}

TEST_CASE("an idle member and its server use next to no time") {
  const Server server;
  const auto member = server.connect();
  const auto watch = member->join(kWorld, 0, 1, "a");
  REQUIRE(server.await_arrivals(1));
  const auto before = test::cpu_time(CLOCK_PROCESS_CPUTIME_ID);
  const auto until = Deadline::in(milliseconds(1'200));  // a beat is among it
  while (!until.passed()) ::poll(nullptr, 0, until.left_ms());
  CHECK(test::cpu_time(CLOCK_PROCESS_CPUTIME_ID) - before < milliseconds(12));
}

TEST_CASE("members come and go without leaving descriptors or threads") {
  const Server server;
  const auto open_descriptors = [] {
    int count = 0;
    for (int fd = 0; fd < 256; ++fd) count += ::fcntl(fd, F_GETFD) != -1 ? 1 : 0;
    return count;
  };
  { server.connect(); }
  const auto settle = [&](int wanted) {
    const auto deadline = Deadline::in(seconds(10));
    while (open_descriptors() != wanted && !deadline.passed()) std::this_thread::yield();
    return open_descriptors();
  };
  const int before = settle(open_descriptors());
  for (int i = 0; i < 30; ++i) {
    const auto member = server.connect();
    const auto watch = member->join(kWorld, 0, 1, "a");
    member->leave(watch);
  }
  CHECK(settle(before) == before);
}

}  // namespace
}  // namespace rondel::liveness
