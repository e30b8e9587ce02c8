// SPDX-License-Identifier: Apache-2.0
// What a rank that runs out of something, or whose network is not as it seems, reads at its endpoint: the
// cause and what to do about it.
#include <sys/resource.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "tests/support/holdings.h"
#include "tests/transports/verbs/world.h"
#include "transports/verbs/frame.h"
#include "transports/verbs/handshake.h"
#include "transports/verbs/queue_pair.h"

namespace rondel::verbs::test {
namespace {

bool mentions(const Status& status, std::string_view words) {
  return status.text().find(words) != std::string::npos;
}

/// A lower limit while it lives.
class Limited {
 public:
  Limited(decltype(RLIMIT_MEMLOCK) resource, rlim_t most) : resource_(resource) {
    REQUIRE(::getrlimit(resource_, &before_) == 0);
    const rlimit lower{most, before_.rlim_max};
    REQUIRE(::setrlimit(resource_, &lower) == 0);
  }
  ~Limited() { ::setrlimit(resource_, &before_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  const decltype(RLIMIT_MEMLOCK) resource_;
  rlimit before_{};
};

/// Why rank 0 can not open an endpoint while `call` fails.
Status refusal(FakeVerbs& fabric, FakeCall call, int error) {
  const auto transport = make_transport_on(FakeVerbs::table(), {}, *Secret::generate());
  REQUIRE(transport->probe().usable);
  const std::size_t objects = fabric.objects();
  fabric.fail_call(call, error);
  const Status status = transport->open({.single_host = true}).status();
  fabric.fail_call(call, 0);
  CHECK(fabric.objects() == objects);
  CHECK(transport->open({.single_host = true}).ok());  // when there is enough again
  return status;
}

TEST_CASE(
    "F04: a completion queue for which no memory can be locked names the limit, the need and the remedy") {
  FakeVerbs fabric;
  const Limited limited(RLIMIT_MEMLOCK, 64 * 1024);
  for (const int error : {ENOMEM, EAGAIN, EPERM}) {
    const Status status = refusal(fabric, FakeCall::create_cq, error);
    INFO(status.text());
    CHECK(status.code() == Code::out_of_resources);
    CHECK(mentions(status, "making a completion queue of "));
    CHECK(mentions(status, "the limit (ulimit -l) is 64 KiB, this needs "));
    CHECK(mentions(status, "raise it: ulimit -l unlimited"));
  }
}

TEST_CASE(
    "D15: without a descriptor for its events a device names the limit on open files, not that on memory") {
  FakeVerbs fabric;
  const Limited limited(RLIMIT_NOFILE, 500);
  for (const FakeCall call : {FakeCall::create_cq, FakeCall::create_comp_channel}) {
    const Status status = refusal(fabric, call, EMFILE);
    INFO(status.text());
    CHECK(status.code() == Code::out_of_resources);
    CHECK(mentions(status, "making a completion "));
    CHECK(mentions(status, "Too many open files"));
    CHECK(mentions(status, "this process may have 500 open files; raise the limit (ulimit -n)"));
    CHECK_FALSE(mentions(status, "ulimit -l"));
  }
  fabric.fail_call(FakeCall::open_device, EMFILE);
  const Probe probe = make_transport_on(FakeVerbs::table(), {}, *Secret::generate())->probe();
  INFO(probe.why_not);
  CHECK_FALSE(probe.usable);
  CHECK(probe.why_not.find("fake0: it can not be opened: Too many open files") != std::string::npos);
  CHECK(probe.why_not.find("ulimit -n") != std::string::npos);
}

TEST_CASE("D24: where small works pass and large ones are dropped on the way, the rank is told of the MTU") {
  FakeVerbs fabric;
  PairOfRanks ranks;
  fabric.drop_packets_over(1500);
  CHECK(ranks.send(1000) == "");
  const std::string text = ranks.send(100'000);
  const Status failure = ranks.zero().failure();
  INFO(text);
  CHECK(failure.text() == text);
  CHECK(failure.code() == Code::peer_lost);
  CHECK(failure.failure().peer == 1);
  CHECK(failure.failure().host == "here");
  CHECK(failure.failure().hint.find(
            "if small works pass and large ones do not, see that the MTU of every switch") !=
        std::string::npos);
}

TEST_CASE("D25: ranks on networks of two kinds are refused at their endpoints, both with both kinds") {
  const FakeVerbs fabric(
      {FakeDevice{.name = "eth"},
       FakeDevice{
           .name = "ib", .link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = 3, .gids = {{IBV_GID_TYPE_IB, 1}}}});
  const auto secret = Secret::generate();
  Config on_ethernet, on_infiniband;
  on_ethernet.verbs_device = "eth";
  on_infiniband.verbs_device = "ib";
  const OneRank zero = open_rank(*secret, 0, on_ethernet);
  const OneRank one = open_rank(*secret, 1, on_infiniband);
  const auto started = Deadline::Clock::now();
  const auto statuses = connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::seconds(30)));
  CHECK(Deadline::Clock::now() - started < std::chrono::seconds(15));  // no later try helps
  for (std::size_t i = 0; i < 2; ++i) {
    INFO(statuses[i].text());
    CHECK(statuses[i].code() == Code::refused);
    CHECK(statuses[i].failure().peer == static_cast<Rank>(1 - i));
    CHECK(mentions(statuses[i], "Ethernet"));
    CHECK(mentions(statuses[i], "InfiniBand"));
  }
}

TEST_CASE("F09: fifty links that could not be made, and fifty that were, leave no object and no descriptor") {
  FakeVerbs fabric;
  const auto secret = Secret::generate();
  const auto cycle = [&fabric, &secret](std::optional<FakeCall> failing) {
    const OneRank zero = open_rank(*secret, 0);
    const OneRank one = open_rank(*secret, 1);
    if (failing) fabric.fail_call(*failing, ENOMEM);
    for (const Status& status :
         connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::seconds(20))))
      CHECK(status.ok() == !failing);
    if (failing) fabric.fail_call(*failing, 0);
  };
  cycle({});
  const auto before = rondel::test::holdings();
  for (int i = 0; i < 50; ++i) {
    cycle(i % 2 == 0 ? FakeCall::create_qp : FakeCall::reg_mr);
    cycle({});
  }
  CHECK(rondel::test::kept_since(before) == "");
  CHECK(fabric.objects() == 0);
}

// The part of rank 0, played on a socket to rank 1: it proves that it knows the secret, then shows `offer`.
void show(const UniqueFd& socket, const Secret& secret, const PairOffer& offer) {
  const auto send_all = [&socket](const Bytes& bytes) {
    return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  };
  auto handshake = *Handshake::initiator(secret, encode(LinkHello{.to = 1, .from = 0, .size = 2}));
  if (!send_all(handshake.opening())) return;
  while (!handshake.done()) {
    Bytes heard(handshake.wants());
    if (::recv(socket.get(), heard.data(), heard.size(), MSG_WAITALL) != static_cast<ssize_t>(heard.size()))
      return;
    const auto answer = handshake.feed(heard);
    if (!answer.ok() || !send_all(*answer)) return;
  }
  send_all(encode(offer));
}

TEST_CASE("D25: a rank of another version is refused at the endpoint, with both versions") {
  const FakeVerbs fabric;
  const auto secret = Secret::generate();
  const OneRank one = open_rank(*secret, 1);
  const UniqueFd socket = call(*one.endpoint);
  std::thread newer([&] { show(socket, *secret, {.layout = 77, .mtu_bytes = 4096}); });
  const Rank zero = 0;
  const std::vector<Bytes> addresses(2);
  const Status status =
      one.endpoint->connect(addresses, std::span(&zero, 1), Deadline::in(std::chrono::seconds(20)));
  newer.join();
  INFO(status.text());
  CHECK(status.code() == Code::refused);
  CHECK(status.failure().peer == 0);
  CHECK(mentions(status,
                 fmt::format("it speaks version 77 of the verbs protocol, this rank version {}", kLayout)));
  CHECK(mentions(status, "use one version of Rondel"));
}

}  // namespace
}  // namespace rondel::verbs::test
