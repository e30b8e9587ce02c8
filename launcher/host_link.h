// SPDX-License-Identifier: Apache-2.0
// HostLink: the launcher's connection to the agent of one host: the process at its other end (the agent
// itself on this host, ssh for others), the greeting, what is sent and heard, and why it broke when it did.
// Owned by the fleet, runs in the job's loop; one thread. It decides nothing about the job.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent.h"
#include "launcher/agent_protocol.h"
#include "launcher/event_loop.h"
#include "launcher/frame_channel.h"
#include "launcher/process.h"
#include "launcher/ssh_command.h"
#include "lib/deadline.h"

namespace rondel {

class HostLink {
 public:
  using Time = Deadline::Clock::time_point;
  enum class Stage {
    unstarted,   // or about to be tried again
    connecting,  // to an agent that has not greeted
    greeted,
    ordered,  // or being examined
    done,     // nothing of the job is left there
    lost      // for whatever reason; nothing more will be heard
  };
  /// Who wants to know. The link must not be destroyed meanwhile.
  class Listener {
   public:
    virtual void heard(HostLink& link, agent::FromAgent& message) = 0;
    /// `before` is the stage in which it was lost.
    virtual void lost(HostLink& link, Stage before, const std::string& why) = 0;
    /// It will be tried again; said once.
    virtual void delayed(HostLink& link, const std::string& why) = 0;
    /// A line that ssh wrote.
    virtual void ssh_said(HostLink& link, const std::string& line) = 0;

   protected:
    ~Listener() = default;
  };
  struct Setup {
    std::string label;  ///< the host's name in messages
    Host host;
    bool local = false;
    std::vector<RankPlace> ranks;
    std::string version;  ///< that the agent must have
    SshOptions ssh;
    std::uint32_t window = 0;             ///< bytes of each output stream under way
    std::chrono::milliseconds silence{};  ///< of an agent elsewhere, then it is lost
    /// For an agent's first words, and for a local one to take up its order; 0: no limit.
    std::chrono::milliseconds patience{};
  };

  HostLink(EventLoop& loop, Setup setup, Listener& listener)
      : loop_(loop), setup_(std::move(setup)), listener_(listener) {}
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;
  ~HostLink();

  void start_local(LocalAgent agent);
  /// Logs in with the words of ssh_words(); `request` holds what else the process needs, but no streams.
  void start_ssh(ProcessRequest request);
  /// Whether a first or a further login is due.
  bool wants_login(Time now) const { return stage_ == Stage::unstarted && now >= again_at_; }
  void send(const agent::FromLauncher& message);
  /// An Order, or an Examine in place of one.
  void give(const agent::FromLauncher& order);
  bool flush_within(std::chrono::milliseconds limit) { return !channel_ || channel_->flush_within(limit); }
  /// After output was used and there is room for more of that stream.
  void return_room(agent::Stream stream);
  /// Gives up what has not ended.
  void lose(const std::string& why);
  void look(Time now);
  /// When look() has something to do.
  Time next_look() const;

  const Setup& setup() const { return setup_; }
  Stage stage() const { return stage_; }
  bool over() const { return stage_ == Stage::done || stage_ == Stage::lost; }
  const agent::Hello& hello() const { return hello_; }
  std::vector<Rank> ranks() const;

 private:
  void open(UniqueFd in, UniqueFd out);
  Status take(std::span<const std::byte> body);
  Status greet(const agent::Hello& hello);
  Status check_owner(const agent::FromAgent& message) const;
  Status count(const agent::Output& output);
  void read_errors();
  void channel_ended(const Status& why);
  void expect_words();
  std::string why_overdue() const;
  void close();
  SshEnding ssh_ending(const std::optional<Ending>& ending) const;
  std::string why_it_ended(const std::optional<Ending>& ending) const;
  void try_again(Time now, const std::string& why);

  EventLoop& loop_;
  Setup setup_;
  Listener& listener_;
  Stage stage_ = Stage::unstarted;
  std::optional<Process> process_;
  std::optional<FrameChannel> channel_;
  UniqueFd errors_;
  std::string error_text_;
  agent::Hello hello_;
  std::array<std::uint32_t, agent::kStreams> used_{};  // output that no room was returned for
  Time words_due_ = Time::max();  // its greeting, or a local one's word that it has its order
  bool overdue_ = false;          // they may lie there, unread
  Time heard_at_ = Time::max();   // from when it has its order on
  Time looked_at_ = Time::min();
  Time stood_still_until_ = Time::min();  // this process did: stopped, or its host asleep
  Time::duration stood_still_{};
  std::optional<Time> try_until_;
  Time again_at_ = Time::min();
  std::chrono::milliseconds again_pause_{};
  std::optional<Time> explain_by_;  // the stream has ended: until then the process may say why
};

}  // namespace rondel
