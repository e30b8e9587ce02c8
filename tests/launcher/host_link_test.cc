// SPDX-License-Identifier: Apache-2.0
// The launcher's side of a host, spoken to by an agent that the test plays.
#include "launcher/host_link.h"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "lib/frame.h"

namespace agent = rondel::agent;
using Catch::Matchers::Contains;
using rondel::EventLoop;
using rondel::HostLink;
using rondel::UniqueFd;

namespace {

/// Ranks 0 and 2 on a host whose agent is this object, up to its order.
class Played final : public HostLink::Listener {
 public:
  explicit Played(std::chrono::milliseconds silence = std::chrono::seconds(60), bool local = true) {
    ::signal(SIGPIPE, SIG_IGN);
    int down[2], up[2];
    REQUIRE(::pipe(down) == 0);
    REQUIRE(::pipe(up) == 0);
    orders_ = UniqueFd(down[0]);
    news_ = UniqueFd(up[1]);
    HostLink::Setup setup;
    setup.label = "there";
    setup.local = local;
    for (const rondel::Rank rank : {0, 2}) {
      setup.ranks.emplace_back();
      setup.ranks.back().rank = rank;
    }
    setup.version = "1";
    setup.window = 1000;
    setup.silence = silence;
    setup.patience = std::chrono::seconds(30);
    link_.emplace(loop_, std::move(setup), *this);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setpgid(0, 0);
      ::close_range(3, ~0U, 0);  // the streams are this object's to close
      for (;;) ::pause();
    }
    ::setpgid(child, child);
    link_->start_local({.pid = child, .to_agent = UniqueFd(down[1]), .from_agent = UniqueFd(up[0])});
    const std::string magic(agent::kAgentMagic);
    REQUIRE(::write(news_.get(), magic.data(), magic.size()) == static_cast<ssize_t>(magic.size()));
    agent::Hello hello;
    hello.version = "1";
    say(hello);
    REQUIRE(link_->stage() == HostLink::Stage::greeted);
    agent::Order order;
    order.secret.resize(32);
    link_->give(order);
  }
  void say(const agent::FromAgent& message) {
    const rondel::Bytes frame = rondel::framed(encode(message));
    REQUIRE(::write(news_.get(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size()));
    REQUIRE(loop_.wait(std::chrono::milliseconds(1000)).ok());
    link_->look(rondel::Deadline::Clock::now());
  }
  /// Its stream ends.
  void go() {
    news_.reset();
    REQUIRE(loop_.wait(std::chrono::milliseconds(1000)).ok());
    look_at(rondel::Deadline::Clock::now() + std::chrono::milliseconds(1500));
  }
  void look_at(rondel::Deadline::Clock::time_point now) { link_->look(now); }
  HostLink& link() { return *link_; }
  const std::string& why() const { return why_; }
  std::size_t heard_messages() const { return heard_; }

 private:
  void heard(HostLink&, agent::FromAgent&) override { ++heard_; }
  void lost(HostLink&, HostLink::Stage, const std::string& why) override { why_ = why; }
  void delayed(HostLink&, const std::string&) override {}
  void ssh_said(HostLink&, const std::string&) override {}

  EventLoop loop_ = *EventLoop::create();
  UniqueFd orders_, news_;
  std::optional<HostLink> link_;
  std::string why_;
  std::size_t heard_ = 0;
};

agent::Output output_of(rondel::Rank rank, std::size_t bytes) {
  return {rank, agent::Stream::standard_output, rondel::Bytes(bytes)};
}

}  // namespace

TEST_CASE("an agent that speaks of another host's ranks is given up before anybody hears it") {
  const agent::FromAgent forged[] = {agent::Started{1, 4711},
                                     output_of(1, 4),
                                     agent::OutputEnd{1, agent::Stream::standard_error},
                                     agent::Ended{{{0, {}}, {1, {}}}},
                                     agent::Ended{{{-1, {}}}},
                                     agent::Started{3, 1}};
  for (const auto& message : forged) {
    Played host;
    const std::size_t before = host.heard_messages();
    host.say(message);
    CHECK(host.link().stage() == HostLink::Stage::lost);
    CHECK_THAT(host.why(), Contains("speaks of rank"));
    CHECK(host.heard_messages() == before);
  }
}

TEST_CASE("an agent has room for so much output, and for more when that is given back") {
  Played host;
  host.say(output_of(2, 600));
  host.link().return_room(agent::Stream::standard_output);
  host.say(output_of(0, 1000));
  CHECK(host.link().stage() == HostLink::Stage::ordered);
  host.say(output_of(0, 1));
  CHECK(host.link().stage() == HostLink::Stage::lost);
  CHECK_THAT(host.why(), Contains("more output than"));
}

TEST_CASE("an agent elsewhere that falls silent is given up; one that shows life, or this host's, is not") {
  const std::chrono::seconds silence(10);
  const auto start = rondel::Deadline::Clock::now();
  const auto look_for = [start](Played& host, int from_s, int to_s) {
    for (int s = from_s; s <= to_s; ++s) host.look_at(start + std::chrono::seconds(s));
  };
  Played silent(silence, false);
  look_for(silent, 1, 9);
  CHECK(silent.link().stage() == HostLink::Stage::ordered);
  look_for(silent, 10, 12);
  CHECK(silent.link().stage() == HostLink::Stage::lost);
  CHECK_THAT(silent.why(), Contains("nothing was heard of it for 10 s"));
  Played living(silence, false);
  look_for(living, 1, 4);
  living.say(agent::Alive{});
  CHECK(living.link().stage() == HostLink::Stage::ordered);
  CHECK(living.link().next_look() < start + silence);
  Played own(silence, true);
  own.say(agent::Joined{});
  look_for(own, 1, 100);
  CHECK(own.link().stage() == HostLink::Stage::ordered);
}

TEST_CASE("who was stopped itself does not take its own silence for an agent's") {
  const std::chrono::seconds silence(10);
  Played host(silence, false);
  const auto start = rondel::Deadline::Clock::now();
  host.look_at(start + std::chrono::seconds(60));
  CHECK(host.link().stage() == HostLink::Stage::ordered);
  for (int s = 61; s <= 71; ++s) host.look_at(start + std::chrono::seconds(s));
  CHECK(host.link().stage() == HostLink::Stage::lost);
}

TEST_CASE("this host's agent is given up when it never takes up its order, but not for words unread so far") {
  const auto start = rondel::Deadline::Clock::now();
  Played late;
  late.look_at(start + std::chrono::seconds(40));
  CHECK(late.link().stage() == HostLink::Stage::ordered);
  late.say(agent::Joined{});
  late.look_at(start + std::chrono::seconds(400));
  CHECK(late.link().stage() == HostLink::Stage::ordered);
  Played stopped;
  CHECK(stopped.link().next_look() <= start + std::chrono::seconds(31));
  stopped.look_at(start + std::chrono::seconds(40));
  stopped.look_at(start + std::chrono::seconds(41));
  CHECK(stopped.link().stage() == HostLink::Stage::lost);
  CHECK_THAT(stopped.why(), Contains("did not take up its order within 30 s") && Contains("--start-timeout"));
}

TEST_CASE("an agent that went because this process stood still is told as such") {
  const std::chrono::seconds silence(10);
  Played host(silence, false);
  const auto now = rondel::Deadline::Clock::now();
  host.look_at(now - std::chrono::seconds(20));
  host.look_at(now);
  host.go();
  CHECK_THAT(host.why(), Contains("this launcher was stopped") && Contains("for 20 s"));
}
