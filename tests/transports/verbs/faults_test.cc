// SPDX-License-Identifier: Apache-2.0
// What becomes of a device's errors: a code, a sentence and a peer, and no wait for ever.
#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <thread>

#include "tests/transports/verbs/world.h"
#include "transports/verbs/diagnosis.h"

namespace rondel::verbs::test {
namespace {

struct Case {
  ibv_wc_status status;
  Code code;
  const char* words;
  Rank blamed = 1;
};

TEST_CASE("F12: each completion error has a code and words, and names the peer where it is about the peer") {
  for (const Case& c : {Case{IBV_WC_RETRY_EXC_ERR, Code::peer_lost, "retries exceeded"},
                        Case{IBV_WC_RNR_RETRY_EXC_ERR, Code::internal, "receiver not ready"},
                        Case{IBV_WC_LOC_PROT_ERR, Code::io_error, "local access error", kNoRank},
                        Case{IBV_WC_LOC_ACCESS_ERR, Code::io_error, "local access error", kNoRank},
                        Case{IBV_WC_LOC_QP_OP_ERR, Code::io_error, "local operation error", kNoRank},
                        Case{IBV_WC_REM_ACCESS_ERR, Code::io_error, "remote access error"},
                        Case{IBV_WC_REM_OP_ERR, Code::peer_lost, "remote operation error"},
                        Case{IBV_WC_WR_FLUSH_ERR, Code::peer_lost, "shut down"},
                        Case{IBV_WC_GENERAL_ERR, Code::io_error, "completion status 21", kNoRank}}) {
    FakeVerbs fabric;
    PairOfRanks ranks;
    Buffer buffer(ranks.zero(), 1000);
    const Slice slice = buffer.all();
    Completion done;
    done.arm(1);
    const Work recv{.verb = Verb::recv, .peer = 1, .local = {&slice, 1}, .done = &done};
    fabric.fail_next_request(c.status);  // the credit
    REQUIRE(ranks.zero().post({&recv, 1}, {}).ok());
    const Status failure = ranks.failure_of_zero();
    INFO(failure.text());
    CHECK(failure.code() == c.code);
    CHECK(failure.text().find(c.words) != std::string::npos);
    CHECK(failure.failure().peer == c.blamed);
    CHECK(done.code() == c.code);
  }
}

TEST_CASE("F12: the first error is kept, the flushes behind it are not told") {
  FakeVerbs fabric;
  PairOfRanks ranks;
  Buffer buffer(ranks.zero(), 1000);
  const Slice slice = buffer.all();
  Completion done;
  done.arm(3);
  const Work recv{.verb = Verb::recv, .peer = 1, .local = {&slice, 1}, .done = &done};
  fabric.fail_next_request(IBV_WC_LOC_PROT_ERR);
  const std::array works{recv, recv, recv};
  REQUIRE(ranks.zero().post(works, {}).ok());
  CHECK(ranks.failure_of_zero().text().find("local access error") != std::string::npos);
  CHECK(done.code() == Code::io_error);
}

TEST_CASE("D24: retries that are exceeded hint at the MTU of the way") {
  CHECK(diagnose(IBV_WC_RETRY_EXC_ERR).hint.find("MTU") != std::string::npos);
}

TEST_CASE("a device that is cut off is a lost peer to who sends to it") {
  FakeVerbs fabric({FakeDevice{.name = "a"}, FakeDevice{.name = "b"}});
  Config on_a;
  on_a.verbs_device = "a";
  Config on_b;
  on_b.verbs_device = "b";
  PairOfRanks ranks({on_a, on_b});
  CHECK(ranks.send(1000) == "");
  fabric.cut_off("b", true);
  const std::string failure = ranks.send(1000);
  CHECK(failure.find("retries exceeded") != std::string::npos);
}

Status registered(Endpoint& endpoint, std::size_t bytes) {
  Bytes memory(bytes);
  return endpoint.register_memory({memory.data(), memory.size(), MemoryKind::host}).status();
}

TEST_CASE("F04: memory that can not be locked names the limit and the need") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  FakeVerbs fabric;
  const OneRank rank = open_rank(*Secret::generate(), 0);
  const rlimit nothing{0, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &nothing) == 0);
  for (const int error : {ENOMEM, EAGAIN, EPERM}) {  // a limit of 0 is "not permitted" to the kernel
    fabric.fail_call(FakeCall::reg_mr, error);
    const Status status = registered(*rank.endpoint, 8192);
    INFO(status.text());
    CHECK(status.code() == Code::out_of_resources);
    CHECK(status.text().find("(ulimit -l) is 0 KiB, this needs 8 KiB more") != std::string::npos);
  }
  // What is registered for later must be able to give way there.
  CHECK_FALSE(open_rank(*Secret::generate(), 0).endpoint->capabilities().holds_memory);
  REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
}

TEST_CASE("F04: where a link could not lock its memory, the transport is not usable, and says why") {
  FakeVerbs fabric;
  const auto transport = make_transport_on(FakeVerbs::table(), {}, *Secret::generate());
  CHECK(transport->probe().usable);
  const std::size_t objects = fabric.objects();
  fabric.fail_call(FakeCall::reg_mr, ENOMEM);
  const Probe probe = transport->probe();
  CHECK_FALSE(probe.usable);
  CHECK(probe.why_not.find("ulimit -l") != std::string::npos);
  fabric.fail_call(FakeCall::reg_mr, 0);
  CHECK(transport->probe().usable);
  CHECK(fabric.objects() == objects);
}

TEST_CASE("what is out beside memory is not told as memory that can not be locked") {
  FakeVerbs fabric;
  fabric.fail_call(FakeCall::alloc_pd, ENOMEM);
  const auto transport = make_transport_on(FakeVerbs::table(), {}, *Secret::generate());
  const Status status = transport->open({.single_host = true}).status();
  CHECK(status.code() == Code::out_of_resources);
  CHECK(status.text().find("ulimit") == std::string::npos);
}

TEST_CASE("a device whose queues are too short is refused in words; one that is just long enough works") {
  for (const int requests : {33, 40, 48, 49, 64}) {
    const FakeVerbs fabric({FakeDevice{.max_requests = requests, .max_message_bytes = 4096}});
    const auto secret = Secret::generate();
    const OneRank zero = open_rank(*secret, 0);
    const OneRank one = open_rank(*secret, 1);
    const auto statuses = connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::seconds(10)));
    INFO(requests << ": " << statuses[0].text());
    CHECK(statuses[0].ok() == (requests >= 49));
    if (!statuses[0].ok()) CHECK(statuses[0].text().find("49 are needed") != std::string::npos);
    if (!statuses[0].ok()) continue;
    PairOfRanks ranks;
    CHECK(ranks.send(1'000'001) == "");
    for (int i = 0; i < 200; ++i) REQUIRE(ranks.send(8) == "");  // eagerly
  }
}

TEST_CASE("a stage that can not be registered fails the endpoint in words, not its neighbour's bytes") {
  FakeVerbs fabric;
  PairOfRanks ranks;
  Buffer buffer(ranks.zero(), 1024);
  const Slice slice = buffer.all();
  Completion done;
  done.arm(1);
  fabric.fail_call(FakeCall::reg_mr, ENOMEM);
  const Work fold{.verb = Verb::recv_reduce, .peer = 1, .local = {&slice, 1}, .done = &done};
  REQUIRE(ranks.zero().post({&fold, 1}, {}).ok());
  const Status failure = ranks.failure_of_zero();
  CHECK(failure.code() == Code::out_of_resources);
  CHECK(failure.text().find("ulimit -l") != std::string::npos);
  CHECK(failure.failure().peer == kNoRank);  // it is not the peer's fault
  fabric.fail_call(FakeCall::reg_mr, 0);
}

TEST_CASE("open gives back all that it made when a part of it fails, a thousand times") {
  FakeVerbs fabric;
  const auto transport = make_transport_on(FakeVerbs::table(), {}, *Secret::generate());
  for (const FakeCall call :
       {FakeCall::open_device, FakeCall::alloc_pd, FakeCall::create_comp_channel, FakeCall::create_cq}) {
    fabric.fail_call(call, EIO);
    for (int i = 0; i < 250; ++i) REQUIRE_FALSE(transport->open({.single_host = true}).ok());
    fabric.fail_call(call, 0);
    CHECK(fabric.objects() <= 2);  // the transport's device and domain
  }
  CHECK(transport->open({.single_host = true}).ok());
}

TEST_CASE("who waits on the descriptor and never blocks learns that its peer has gone") {
  const FakeVerbs fabric;
  PairOfRanks ranks;
  Buffer buffer(ranks.zero(), 10);
  const Slice slice = buffer.all();
  Completion done;
  done.arm(1);
  const Work recv{.verb = Verb::recv, .peer = 1, .local = {&slice, 1}, .done = &done};
  REQUIRE(ranks.zero().post({&recv, 1}, {}).ok());
  REQUIRE(ranks.zero().progress(std::chrono::milliseconds(20)).ok());  // it has slept
  ranks.end_one();
  for (int turns = 0; ranks.zero().failure().ok() && turns < 3; ++turns) {
    pollfd item{ranks.zero().wait_descriptor(), POLLIN, 0};
    REQUIRE(::poll(&item, 1, 5'000) == 1);
    (void)ranks.zero().progress(std::chrono::nanoseconds::zero());
  }
  CHECK(ranks.zero().failure().code() == Code::peer_lost);
  CHECK(done.code() == Code::peer_lost);
}

TEST_CASE(
    "works that a peer has had before it left are finished, although their acknowledgement never comes") {
  FakeVerbs fabric;
  PairOfRanks ranks;
  Buffer out(ranks.zero(), 1000);
  Buffer in(ranks.one(), 1000);
  const Slice from = out.all();
  const Slice to = in.all();
  Completion sent;
  Completion received;
  Completion late;
  for (Completion* one : {&sent, &received, &late}) one->arm(1);
  const Work recv{.verb = Verb::recv, .peer = 0, .local = {&to, 1}, .done = &received};
  const Work send{.verb = Verb::send, .peer = 1, .local = {&from, 1}, .done = &sent};
  const Work never_met{.verb = Verb::send, .peer = 1, .local = {&from, 1}, .done = &late};
  fabric.withhold_acknowledgements(true);
  REQUIRE(ranks.one().post({&recv, 1}, {}).ok());
  REQUIRE(ranks.zero().post(std::array{send, never_met}, {}).ok());
  for (int turns = 0; !received.done() && turns < 1000; ++turns)
    for (Endpoint* endpoint : {&ranks.zero(), &ranks.one()})
      REQUIRE(endpoint->progress(std::chrono::nanoseconds::zero()).ok());
  CHECK_FALSE(sent.done());
  ranks.end_one();
  const Status failure = ranks.failure_of_zero();
  CHECK(failure.code() == Code::peer_lost);
  CHECK(failure.text().find("closed the connection") != std::string::npos);
  CHECK((sent.done() && sent.code() == Code::ok));
  CHECK(late.code() == Code::peer_lost);
}

// Rank 0 waits for what never comes; returns its failure after `trouble`.
template <class Trouble>
Status failure_of_waiting_zero(PairOfRanks& ranks, Trouble trouble) {
  Buffer buffer(ranks.zero(), 10);
  const Slice slice = buffer.all();
  Completion done;
  done.arm(1);
  const Work recv{.verb = Verb::recv, .peer = 1, .local = {&slice, 1}, .done = &done};
  REQUIRE(ranks.zero().post({&recv, 1}, {}).ok());
  REQUIRE(ranks.zero().progress(std::chrono::milliseconds(20)).ok());  // it has slept
  trouble();
  const Status failure = ranks.failure_of_zero();
  CHECK(done.done());
  return failure;
}

TEST_CASE("the end of a device is told with its name, and no peer is blamed") {
  for (const ibv_event_type type : {IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR}) {
    FakeVerbs fabric;
    PairOfRanks ranks;
    const Status failure = failure_of_waiting_zero(ranks, [&fabric, type] { fabric.report("fake0", type); });
    CHECK(failure.code() == Code::io_error);
    CHECK(failure.text().find("fake0: ") != std::string::npos);
    CHECK(failure.failure().peer == kNoRank);
  }
}

TEST_CASE("all who sleep on one device learn of its end, whoever hears it") {
  FakeVerbs fabric;
  const auto transport = make_transport_on(FakeVerbs::table(), {}, *Secret::generate());
  std::array<std::unique_ptr<Endpoint>, 2> endpoints;
  for (auto& endpoint : endpoints) endpoint = *transport->open({.single_host = true});
  const auto started = Deadline::Clock::now();
  std::array<std::thread, 2> sleepers;
  for (std::size_t i = 0; i < 2; ++i)
    sleepers[i] = std::thread([&, i] { (void)endpoints[i]->progress(std::chrono::seconds(20)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // whether they sleep yet does not matter
  fabric.report("fake0", IBV_EVENT_DEVICE_FATAL);
  for (std::thread& sleeper : sleepers) sleeper.join();
  CHECK(Deadline::Clock::now() - started < std::chrono::seconds(10));
  for (const auto& endpoint : endpoints) CHECK(endpoint->failure().code() == Code::io_error);
}

TEST_CASE("a device that has failed is opened again by the next endpoint") {
  FakeVerbs fabric;
  const auto transport = make_transport_on(FakeVerbs::table(), {}, *Secret::generate());
  const auto before = *transport->open({.single_host = true});
  fabric.report("fake0", IBV_EVENT_DEVICE_FATAL);
  REQUIRE_FALSE(before->progress(std::chrono::milliseconds(1)).ok());
  const auto after = *transport->open({.single_host = true});
  CHECK(after->progress(std::chrono::milliseconds(1)).ok());
}

TEST_CASE("a send to a peer that is known to have gone fails at once, however patient the caller is") {
  for (const bool oversubscribed : {false, true}) {
    const FakeVerbs fabric;
    Config config;
    if (!oversubscribed) config.spin = std::chrono::microseconds(0);
    PairOfRanks ranks({config, config});
    ranks.end_one();
    for (int turns = 0; turns < 3; ++turns) (void)ranks.zero().progress(std::chrono::milliseconds(5));
    Buffer buffer(ranks.zero(), 10);
    const Slice slice = buffer.all();
    Completion done;
    done.arm(1);
    const Work send{.verb = Verb::send, .peer = 1, .local = {&slice, 1}, .done = &done};
    const Status posted = ranks.zero().post({&send, 1}, {});
    if (!posted.ok()) continue;
    const auto started = Deadline::Clock::now();
    CHECK_FALSE(ranks.zero().progress(std::chrono::seconds(20)).ok());
    CHECK(Deadline::Clock::now() - started < std::chrono::seconds(10));
    CHECK(done.code() == Code::peer_lost);
  }
}

TEST_CASE("a completion queue that can not be read any more is a failure, not silence") {
  FakeVerbs fabric;
  PairOfRanks ranks;
  const Status failure = failure_of_waiting_zero(ranks, [&fabric] { fabric.break_queues(true); });
  CHECK(failure.code() == Code::io_error);
  CHECK(failure.text().find("fake0: a completion queue") != std::string::npos);
}

TEST_CASE("a port that went down is named where a peer is lost, and forgotten when it is back") {
  for (const bool back : {false, true}) {
    FakeVerbs fabric;
    PairOfRanks ranks;
    fabric.report("fake0", IBV_EVENT_PORT_ERR);
    CHECK(ranks.send(100) == "");  // by itself it is no failure: ports come back
    if (back) fabric.report("fake0", IBV_EVENT_PORT_ACTIVE);
    fabric.cut_off("fake0", true);
    const std::string failure = ranks.send(100);
    CHECK(failure.find("retries exceeded") != std::string::npos);
    CHECK((failure.find("port fake0:1 of rank ") == std::string::npos) == back);
  }
}

TEST_CASE("a port that stays down ends what waits, also where the device never gives up") {
  FakeVerbs fabric;
  Config hasty;
  hasty.silence_timeout = std::chrono::milliseconds(300);
  PairOfRanks ranks({hasty, hasty});
  const auto begun = Deadline::Clock::now();
  const Status failure =
      failure_of_waiting_zero(ranks, [&fabric] { fabric.report("fake0", IBV_EVENT_PORT_ERR); });
  CHECK(failure.code() == Code::io_error);
  INFO(failure.text());
  CHECK(failure.text().find("port fake0:1 of rank 0 (host here) is down, and nothing has moved for 0.3 s") !=
        std::string::npos);
  CHECK(Deadline::Clock::now() - begun >= hasty.silence_timeout);
}

TEST_CASE("a port that stays down ends one long wait too") {
  FakeVerbs fabric;
  Config hasty;
  hasty.silence_timeout = std::chrono::milliseconds(300);
  PairOfRanks ranks({hasty, hasty});
  OneWork waits(ranks.zero(), Verb::recv, 8);
  REQUIRE(waits.post(ranks.zero(), 1).ok());
  REQUIRE(ranks.zero().progress(std::chrono::milliseconds(20)).ok());
  fabric.report("fake0", IBV_EVENT_PORT_ERR);
  const auto begun = Deadline::Clock::now();
  while (ranks.zero().failure().ok() && Deadline::Clock::now() - begun < std::chrono::seconds(10))
    (void)ranks.zero().progress(std::chrono::seconds(10));
  CHECK(ranks.zero().failure().code() == Code::io_error);
  CHECK(Deadline::Clock::now() - begun < std::chrono::seconds(5));
}

}  // namespace
}  // namespace rondel::verbs::test
