// SPDX-License-Identifier: Apache-2.0
// Who may become a link: the ranks of this job, and nobody else.
#include "transports/verbs/handshake.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <ctime>
#include <thread>

#include "tests/support/seed.h"
#include "tests/transports/verbs/world.h"

namespace rondel::verbs::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Whether the other side closes, while its endpoint makes progress.
bool is_closed(int socket, Endpoint& endpoint) {
  const Deadline deadline = Deadline::in(seconds(5));
  std::array<char, 512> ignored;
  while (!deadline.passed()) {
    REQUIRE(endpoint.progress(milliseconds(10)).ok());
    pollfd wanted{socket, POLLIN, 0};
    if (::poll(&wanted, 1, 0) == 1 && ::recv(socket, ignored.data(), ignored.size(), 0) <= 0) return true;
  }
  return false;
}

TEST_CASE("strangers are closed: HTTP, silence, zeros, noise, huge lengths; the job goes on") {
  const FakeVerbs fabric;
  const auto secret = Secret::generate();
  Config impatient;
  impatient.handshake_timeout = milliseconds(300);
  const OneRank zero = open_rank(*secret, 0, impatient);
  const OneRank one = open_rank(*secret, 1, impatient);
  rondel::test::Random random(rondel::test::test_seed());
  std::string noise(4096, '\0');
  for (char& c : noise) c = static_cast<char>(random.next());
  std::vector<UniqueFd> strangers;
  for (const std::string& words : {std::string("GET / HTTP/1.0\r\n\r\n"), std::string("x"), std::string(),
                                   std::string(60'000, '\0'), noise, std::string(16, '\xff')}) {
    strangers.push_back(call(*one.endpoint));
    (void)::send(strangers.back().get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  for (const Status& status : connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(seconds(5))))
    CHECK(status.text() == "ok");
  for (const UniqueFd& stranger : strangers) CHECK(is_closed(stranger.get(), *one.endpoint));
}

TEST_CASE("a rank with another secret does not connect, and is told why") {
  const FakeVerbs fabric;
  const OneRank zero = open_rank(*Secret::generate(), 0);
  const OneRank one = open_rank(*Secret::generate(), 1);
  const auto statuses = connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(milliseconds(600)));
  INFO(statuses[0].text());
  CHECK(statuses[0].code() == Code::refused);  // at once
  CHECK(statuses[0].text().find("secret") != std::string::npos);
  CHECK(statuses[0].failure().peer == 1);
  CHECK(statuses[1].code() == Code::timed_out);  // it can not know that this was no stranger
  CHECK(statuses[1].failure().peer == 0);
}

TEST_CASE("F04: a queue pair that can not be made is a reason why there is no connection") {
  FakeVerbs fabric;
  const auto secret = Secret::generate();
  const OneRank zero = open_rank(*secret, 0);
  const OneRank one = open_rank(*secret, 1);
  fabric.fail_call(FakeCall::create_qp, ENOMEM);
  const auto started = Deadline::Clock::now();
  const auto statuses = connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(seconds(30)));
  CHECK(Deadline::Clock::now() - started < seconds(20));  // no later try helps
  INFO(statuses[0].text());
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::out_of_resources);
    CHECK(status.failure().peer == kNoRank);
  }
  CHECK(statuses[0].text().find("ulimit -l") != std::string::npos);
  fabric.fail_call(FakeCall::create_qp, 0);
  for (const Status& status : connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(seconds(5))))
    CHECK(status.text() == "ok");
}

TEST_CASE("a rank that left and comes again is let in while its peer still waits for another one") {
  const FakeVerbs fabric;
  const auto secret = Secret::generate();
  OneRank zero = open_rank(*secret, 0, {}, FakeVerbs::table(), 3);
  const OneRank one = open_rank(*secret, 1, {}, FakeVerbs::table(), 3);
  const OneRank two = open_rank(*secret, 2, {}, FakeVerbs::table(), 3);  // never answers
  const std::vector<Bytes> addresses{zero.endpoint->address(), one.endpoint->address(),
                                     two.endpoint->address()};
  const std::array<Rank, 2> both{0, 2};
  const Rank to_one = 1;
  Status waited;
  std::thread waiter(
      [&] { waited = one.endpoint->connect(addresses, both, Deadline::in(milliseconds(1500))); });
  const auto come = [&] {
    return zero.endpoint->connect(addresses, std::span(&to_one, 1), Deadline::in(milliseconds(1000)));
  };
  CHECK(come().text() == "ok");
  zero.endpoint.reset();
  zero = open_rank(*secret, 0, {}, FakeVerbs::table(), 3);
  CHECK(come().text() == "ok");
  waiter.join();
  CHECK(waited.code() == Code::timed_out);
  CHECK(waited.failure().peer == 2);
}

TEST_CASE("without descriptors for those who call, a connect waits quietly and says why it failed") {
  const FakeVerbs fabric;
  const auto secret = Secret::generate();
  const OneRank one = open_rank(*secret, 1);
  const UniqueFd caller = call(*one.endpoint);
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const UniqueFd highest(::dup(0));
  const rlimit low{static_cast<rlim_t>(highest.get()), limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  const Rank to_zero = 0;
  const std::clock_t cpu = std::clock();
  const Status status =
      one.endpoint->connect(std::vector<Bytes>(2), std::span(&to_zero, 1), Deadline::in(milliseconds(500)));
  const double cpu_s = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  INFO(status.text());
  CHECK(status.code() == Code::out_of_resources);
  CHECK(cpu_s < 0.25);
}

TEST_CASE("a hello for somebody else, or from nobody that could be, is refused") {
  const LinkHello mine{.context = 7, .channel = 1, .to = 2, .from = kNoRank, .size = 4};
  const LinkHello good{.context = 7, .channel = 1, .to = 2, .from = 0, .size = 4};
  CHECK(judge(good, mine).ok());
  const auto refused = [&](auto change) {
    LinkHello hello = good;
    change(hello);
    return judge(hello, mine).code() == Code::refused;
  };
  CHECK(refused([](LinkHello& h) { h.context = 8; }));
  CHECK(refused([](LinkHello& h) { h.channel = 0; }));
  CHECK(refused([](LinkHello& h) { h.to = 1; }));
  CHECK(refused([](LinkHello& h) { h.from = 4; }));
  CHECK(refused([](LinkHello& h) { h.from = -1; }));
  CHECK(refused([](LinkHello& h) { h.from = 2; }));
  CHECK(refused([](LinkHello& h) { h.size = 5; }));
}

TEST_CASE("a hello survives its way over the wire, and one that is cut is refused") {
  const LinkHello hello{.context = 0x1234567890, .channel = 3, .to = 2, .from = 1, .size = 4};
  const Bytes bytes = encode(hello);
  const auto read = decode_link_hello(bytes);
  REQUIRE(read.ok());
  CHECK((read->context == hello.context && read->channel == 3 && read->to == 2 && read->from == 1));
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    CHECK(decode_link_hello(std::span(bytes).first(cut)).code() == Code::refused);
}

}  // namespace
}  // namespace rondel::verbs::test
