// SPDX-License-Identifier: Apache-2.0
// Probes between a client and a server of one process.
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "launcher/doctor/probe_client.h"
#include "launcher/doctor/probe_server.h"
#include "lib/store/dial.h"
#include "lib/store/socket.h"

namespace agent = rondel::agent;
using Catch::Matchers::Contains;
using rondel::EventLoop;
using rondel::Secret;
using rondel::doctor::PortFacts;
using rondel::doctor::ProbeServer;
using std::chrono::milliseconds;

namespace {

/// Host 3, in a thread of its own.
class Served {
 public:
  explicit Served(const Secret& secret, rondel::PortRange range = {}) : server_(loop_, secret, 3) {
    facts_ = server_.listen(range);
    REQUIRE(facts_.failure.empty());
    // Pairs with the store in the destructor.
    thread_ = std::thread([this] {
      while (!stop_.load(std::memory_order_acquire)) static_cast<void>(loop_.wait(milliseconds(5)));
    });
  }
  ~Served() {
    stop_.store(true, std::memory_order_release);
    thread_.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(facts_.listening.front()); }
  const PortFacts& facts() const { return facts_; }

 private:
  EventLoop loop_ = *EventLoop::create();
  ProbeServer server_;
  PortFacts facts_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

agent::Attempt reach(const std::string& address, const Secret& secret, std::uint32_t host,
                     bool store = false) {
  const agent::Reach order{.targets = {{.host = host, .store = store, .addresses = {address}}},
                           .patience = milliseconds(3'000),
                           .limit = milliseconds(6'000)};
  return rondel::doctor::reach_all(order, secret, 4).attempts.at(0);
}

}  // namespace

TEST_CASE("a host is reached, and measured, by who has the secret and asks for it by its number") {
  const Secret secret = *Secret::generate();
  const Served served(secret);
  const auto met = reach(served.address(), secret, 3);
  INFO(met.why_not);
  CHECK(met.reached);
  CHECK_THAT(reach(served.address(), secret, 4).why_not, Contains("another host"));
  CHECK_THAT(reach(served.address(), secret, 3, true).why_not, Contains("another host"));
  CHECK_FALSE(reach(served.address(), *Secret::generate(), 3).reached);
  const auto measured = rondel::doctor::measure(
      {.host = 3, .address = served.address(), .time = milliseconds(50), .limit = milliseconds(10'000)},
      secret);
  CHECK(measured.why_not.empty());
  CHECK(measured.round_trip_ns > 0);
  CHECK(measured.bytes > 0);
  CHECK(measured.bulk_ns > 0);
  CHECK(measured.path_mtu > 0);
  const auto wrong = rondel::doctor::measure(
      {.host = 2, .address = served.address(), .time = milliseconds(50), .limit = milliseconds(10'000)},
      secret);
  CHECK_THAT(wrong.why_not, Contains("another host"));
}

TEST_CASE("strangers cost nothing: the host still answers while hundreds say nothing or nonsense") {
  const Secret secret = *Secret::generate();
  const Served served(secret);
  std::vector<rondel::UniqueFd> strangers;
  const int port = std::stoi(served.address().substr(served.address().rfind(':') + 1));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 100; ++i) {
    rondel::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    if (i % 2 == 0) ::send(fd.get(), "GET / HTTP/1.1\r\n\r\n0123456789", 28, MSG_NOSIGNAL);
    strangers.push_back(std::move(fd));
  }
  CHECK(reach(served.address(), secret, 3).reached);
}

TEST_CASE("nobody there, and no time left, are said") {
  const Secret secret = *Secret::generate();
  std::string address;
  {
    const Served served(secret);
    address = served.address();
  }
  CHECK_THAT(reach(address, secret, 3).why_not, Contains("refused"));
  const agent::Reach late{.targets = {{.host = 3, .store = false, .addresses = {address, address}}},
                          .patience = milliseconds(1),
                          .limit = milliseconds(0)};
  for (const auto& one : rondel::doctor::reach_all(late, secret, 1).attempts)
    CHECK_THAT(one.why_not, Contains("no time left"));
}

TEST_CASE("of a range of ports the first and the last free one are listened on") {
  const auto first = rondel::store::listen_on("127.0.0.1", 0);
  REQUIRE(first.ok());
  const std::string text = rondel::store::describe(*rondel::store::local_address(first->get()));
  const auto taken = static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(':') + 1)));
  if (taken > 65'500) return;
  const Served served(*Secret::generate(), {taken, static_cast<std::uint16_t>(taken + 20)});
  CHECK(*served.facts().free_in_range <= 20);
  REQUIRE(served.facts().listening.size() == 2);
  CHECK(served.facts().listening[0] > taken);
  CHECK(served.facts().listening[1] > served.facts().listening[0]);
}
