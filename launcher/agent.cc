// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "launcher/agent_protocol.h"
#include "launcher/event_loop.h"
#include "launcher/frame_channel.h"
#include "launcher/guardian.h"
#include "launcher/host_ranks.h"
#include "launcher/job_processes.h"
#include "launcher/machine.h"
#include "launcher/rank_input.h"
#include "launcher/rank_output.h"
#include "launcher/resources.h"
#include "launcher/signals.h"
#include "launcher/store_finder.h"
#include "lib/config.h"
#include "lib/host_identity.h"
#include "lib/store/socket.h"

namespace rondel {
namespace {

using Clock = Deadline::Clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kOrphansPause{1'000};   // between looks for processes that were handed to us
constexpr Milliseconds kSweepPause{20};        // between looks for processes that should have ended
constexpr Milliseconds kOutsiderSilence{500};  // after the job's end, for output that outsiders hold open
constexpr int kSignsPerSilence = 4;            // of life, to a launcher elsewhere
constexpr Milliseconds kAfterKill{2'000};      // for killed processes that a system call holds

Status stopped_early() { return Status(Code::aborted, "stopped before its ranks were started"); }

std::string machine_name() {
  const auto host = this_host();
  return host.ok() ? host->kernel + "/" + host->name : std::string();
}

class Agent {
 public:
  static Result<std::unique_ptr<Agent>> create(AgentSetup setup);
  void run();

 private:
  enum class Stage {
    waiting,    // for the order
    seeking,    // the store, at one address after the other
    running,    // ranks live, or may
    ending,     // whatever lives of the job is being ended
    draining,   // the rest of the output is on its way
    examining,  // no job, but the host
    done
  };

  Agent(AgentSetup setup, EventLoop loop, SignalSource signals)
      : elsewhere_(setup.elsewhere),
        version_(std::move(setup.version)),
        look_(std::move(setup.look)),
        loop_(std::move(loop)),
        signals_(std::move(signals)),
        channel_(loop_, std::move(setup.from_launcher), std::move(setup.to_launcher)),
        output_(loop_, [this](const agent::FromAgent& message) { send(message); }),
        input_(loop_, [this](const agent::FromAgent& message) { send(message); }) {}

  Status greet();
  void send(const agent::FromAgent& message) { channel_.send(encode(message)); }
  Status take(std::span<const std::byte> body);
  Status take(agent::Order& order);
  Status take(agent::Signal& signal);
  Status take(agent::Kill& kill);
  Status take(agent::Finish& finish);
  Status take(agent::Room& room);
  Status take(agent::InputPiece& piece) { return input_.take(piece.bytes); }
  Status take(agent::InputEnd&) { return input_.end(), Status(); }
  Status take(agent::Alive&) { return {}; }
  Status take(agent::Examine& order);
  template <class Probe>  // ClockAsk, Reach, Measure
  Status take(Probe& probe);
  Status prepare(agent::Order& order, const Secret& secret);
  void seek();
  void start_ranks(const std::string& store);
  void fail_to_start(const Status& why);
  void show_life(Clock::time_point now);
  Status start_rank(const RankPlace& place);
  Result<int> input_for(Rank rank);
  void take_signals();
  void end_job(Milliseconds grace);
  void abandon();
  bool watches_launcher() const {
    return (ranks_ || examiner_) && silence_.count() > 0 && !paused_ && !abandoned_;
  }
  void protect_orphans(Clock::time_point now);
  void look_around(Clock::time_point now);
  void end(Clock::time_point now);
  Clock::time_point next_look(Clock::time_point now) const;

  const bool elsewhere_;
  const std::string version_;
  const doctor::TransportLook look_;
  EventLoop loop_;
  SignalSource signals_;
  FrameChannel channel_;
  RankOutput output_;
  RankInput input_;
  std::optional<Guardian> guardian_;
  std::optional<HostRanks> ranks_;
  std::unique_ptr<doctor::Examiner> examiner_;
  JobMark mark_;
  UniqueFd forwarded_;  // the stdin rank's end of its pipe, until that rank is started
  Stage stage_ = Stage::waiting;
  bool abandoned_ = false;
  bool paused_ = false;  // the launcher is stopped, and so are the ranks: its silence says nothing
  std::optional<agent::Order> order_;  // while its store is sought
  std::optional<StoreSearch> search_;
  Milliseconds silence_{};  // of the launcher, then it has vanished; 0: never
  Clock::time_point heard_ = Clock::now();
  Clock::time_point next_sign_ = Clock::time_point::max();
  Clock::time_point next_orphans_{};
  std::vector<pid_t> orphans_;  // sessions of which the guardian knows
  Clock::time_point kill_at_ = Clock::time_point::max();
};

Result<std::unique_ptr<Agent>> Agent::create(AgentSetup setup) {
  auto signals = SignalSource::create();
  if (!signals.ok()) return std::move(signals).status();
  auto loop = EventLoop::create();
  if (!loop.ok()) return std::move(loop).status();
  std::unique_ptr<Agent> made(new Agent(std::move(setup), *std::move(loop), *std::move(signals)));
  RONDEL_TRY(made->greet());
  return made;
}

Status Agent::greet() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of the job come to us, not to init
  RONDEL_TRY(loop_.watch(signals_.fd(), EPOLLIN, [this] { take_signals(); }));
  RONDEL_TRY(channel_.open([this](std::span<const std::byte> body) { return take(body); },
                           [this](const Status&) { abandon(); }));
  const auto route = parse_ssh_connection(environment_variable("SSH_CONNECTION"));
  const auto port = find_free_port();
  if (!port.ok()) return port.status();
  channel_.send_raw(agent::kAgentMagic);
  send(agent::Hello{.version = version_,
                    .host = host_name(),
                    .address = own_address(elsewhere_ ? route : std::nullopt),
                    .free_port = *port,
                    .pid = ::getpid(),
                    .machine = machine_name()});
  return {};
}

void Agent::run() {
  while (stage_ != Stage::done) {
    const auto now = Clock::now();
    if (!loop_.wait(next_look(now) - now).ok()) break;
    look_around(Clock::now());
  }
  channel_.flush_within(Milliseconds(5'000));
  // Threads of an examination may still be at work: what they use must not go before them.
  if (examiner_) ::_exit(0);
}

Status Agent::take(std::span<const std::byte> body) {
  auto message = agent::decode_from_launcher(body);
  if (!message.ok()) return std::move(message).status();
  heard_ = Clock::now();
  paused_ = false;
  const bool is_order =
      std::holds_alternative<agent::Order>(*message) || std::holds_alternative<agent::Examine>(*message);
  if (is_order != (stage_ == Stage::waiting))
    return Status(Code::refused, "the one order is not where it belongs");
  return std::visit([this](auto& one) { return take(one); }, *message);
}

Status Agent::take(agent::Order& order) {
  const auto secret = Secret::from_bytes(order.secret);
  if (!secret.ok()) return secret.status();
  order_ = std::move(order);
  silence_ = order_->silence;
  const Status prepared = prepare(*order_, *secret);
  if (!prepared.ok()) {
    fail_to_start(prepared);
  } else if (elsewhere_) {
    stage_ = Stage::seeking;
  } else {
    start_ranks(order_->stores.front());
  }
  return {};
}

Status Agent::prepare(agent::Order& order, const Secret& secret) {
  mark_.job = order.contact.job;
  for (const RankPlace& place : order.ranks) mark_.ranks.push_back(place.rank);
  std::sort(mark_.ranks.begin(), mark_.ranks.end());
  auto guardian = Guardian::start(mark_, order.grace);
  if (!guardian.ok()) return std::move(guardian).status();
  guardian_.emplace(*std::move(guardian));
  mark_.adopter = ::getpid();
  mark_.spared = {::getpid(), guardian_->pid(), elsewhere_ ? -1 : ::getppid()};
  const auto route = parse_ssh_connection(environment_variable("SSH_CONNECTION"));
  if (elsewhere_) {
    search_.emplace(order.stores, route ? route->client : "", secret, Deadline::in(order.patience));
    next_sign_ = Clock::now();
  }
  return {};
}

/// One address in each turn of the loop, so that the launcher is heard between them.
void Agent::seek() {
  const auto found = search_->try_next();
  if (!found) return;
  if (found->ok())
    start_ranks(**found);
  else
    fail_to_start(found->status());
}

void Agent::fail_to_start(const Status& why) {
  stage_ = Stage::running;
  search_.reset();
  if (!ranks_) ranks_.emplace(*std::exchange(order_, std::nullopt), RankSetup{});
  send(agent::StartFailed{why.text()});
}

void Agent::start_ranks(const std::string& store) {
  stage_ = Stage::running;
  search_.reset();
  const auto limit =
      make_room_for_descriptors(agent_descriptors(order_->ranks.size()), order_->ranks.size(), "agent");
  if (!limit.ok()) return fail_to_start(limit.status());
  auto bindings = bind_on_this_host(order_->binding, static_cast<Rank>(order_->ranks.size()));
  if (!bindings.ok()) return fail_to_start(bindings.status());
  agent::Order order = *std::exchange(order_, std::nullopt);
  order.contact.store = "tcp://" + store;
  // Rank 0 is on the launcher's host: there it is reached as the store is.
  if (order.contact.master_address.empty()) order.contact.master_address = store::parse_address(store)->host;
  if (order.own_variables) add_host_variables(order.environment, inherited_environment());
  send(agent::Joined{order.contact.store});
  for (std::size_t i = 0; i < agent::kStreams; ++i)
    output_.grant(static_cast<agent::Stream>(i), order.output_window);
  ranks_.emplace(std::move(order), RankSetup{signals_.original_mask(), *limit, *std::move(bindings)});
  for (const RankPlace& place : ranks_->order().ranks) {
    const Status started = start_rank(place);
    if (!started.ok()) return fail_to_start(started);
  }
}

Result<int> Agent::input_for(Rank rank) {
  const agent::Order& order = ranks_->order();
  if (order.input == agent::Input::none || order.input_rank != rank) return -1;
  if (order.input == agent::Input::inherited) return elsewhere_ ? -1 : STDIN_FILENO;
  auto pipe = input_.open();
  if (!pipe.ok()) return std::move(pipe).status();
  forwarded_ = *std::move(pipe);
  return forwarded_.get();
}

Status Agent::start_rank(const RankPlace& place) {
  const auto input = input_for(place.rank);
  if (!input.ok()) return input.status();
  auto started = ranks_->start(place, *input);
  forwarded_.reset();
  if (!started.ok()) return std::move(started).status();
  mark_.sessions.push_back(started->pid);
  guardian_->protect(started->pid);
  send(agent::Started{place.rank, started->pid, cpu_list(started->cpus)});
  RONDEL_TRY(output_.add(place.rank, agent::Stream::standard_output, std::move(started->standard_output)));
  return output_.add(place.rank, agent::Stream::standard_error, std::move(started->standard_error));
}

Status Agent::take(agent::Signal& signal) {
  if (stage_ == Stage::seeking && signal.number == SIGTERM) fail_to_start(stopped_early());
  if (ranks_) ranks_->signal_ranks(signal.number);
  paused_ = signal.number == SIGSTOP;
  return {};
}

Status Agent::take(agent::Kill&) {
  if (stage_ == Stage::seeking) fail_to_start(stopped_early());
  if (stage_ == Stage::draining) output_.discard();  // somebody does not want to wait for the rest
  kill_at_ = std::min(kill_at_, Clock::now());
  return {};
}

Status Agent::take(agent::Examine& order) {
  auto examiner = doctor::Examiner::start(loop_, order, look_,
                                          [this](const agent::FromAgent& message) { send(message); });
  stage_ = Stage::examining;
  silence_ = order.silence;
  if (!examiner.ok()) return send(agent::StartFailed{examiner.status().text()}), Status();
  examiner_ = *std::move(examiner);
  if (elsewhere_) next_sign_ = Clock::now();
  return {};
}

template <class Probe>
Status Agent::take(Probe& probe) {
  if (examiner_) return examiner_->take(probe), Status();
  return Status(Code::refused, "a probe without an examination");
}

Status Agent::take(agent::Finish& finish) {
  if (stage_ == Stage::examining) stage_ = Stage::draining;
  if (stage_ == Stage::running) end_job(finish.grace);
  return {};
}

Status Agent::take(agent::Room& room) {
  output_.grant(room.stream, room.bytes);
  return {};
}

void Agent::take_signals() {
  bool asked = false, children = false;
  for (const int signal : signals_.take()) {
    children = children || signal == SIGCHLD;
    asked = asked || signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
  }
  if (children && ranks_) {
    const auto endings = ranks_->collect();
    if (!endings.empty()) send(agent::Ended{endings});
    collect_orphans(mark_);
  }
  // Somebody of this host ends us: the launcher sees our ranks end, and stops the others.
  if (asked && !abandoned_) {
    if (ranks_) ranks_->signal_ranks(SIGTERM);
    if (kill_at_ == Clock::time_point::max() && ranks_) kill_at_ = Clock::now() + ranks_->order().grace;
    if (!ranks_) stage_ = Stage::done;
  }
}

void Agent::end_job(Milliseconds grace) {
  stage_ = Stage::ending;
  signal_job(mark_, SIGTERM);
  kill_at_ = std::min(kill_at_, Clock::now() + grace);
}

/// The launcher is gone, and with it everybody who would read.
void Agent::abandon() {
  if (abandoned_) return;
  abandoned_ = true;
  channel_.close();
  output_.discard();
  input_.end();
  if (!ranks_) {
    stage_ = Stage::done;  // looking for the store at most
    return;
  }
  ranks_->signal_ranks(SIGTERM);
  ranks_->signal_ranks(SIGCONT);  // a stopped process would not notice
  end_job(ranks_->order().grace);
}

/// A process that left its session, its name and its parents is known only as long as it is this process's
/// child: the guardian is told before.
void Agent::protect_orphans(Clock::time_point now) {
  if (now < next_orphans_ || !ranks_) return;
  next_orphans_ = now + kOrphansPause;
  std::vector<pid_t> adopted = adopted_sessions(mark_);
  for (const pid_t session : adopted)
    if (std::ranges::find(orphans_, session) == orphans_.end()) guardian_->protect(session);
  for (const pid_t session : orphans_)  // the number may become a stranger's
    if (std::ranges::find(adopted, session) == adopted.end()) guardian_->forget(session);
  orphans_ = std::move(adopted);
}

void Agent::show_life(Clock::time_point now) {
  if (now < next_sign_ || abandoned_) return;
  send(agent::Alive{});
  next_sign_ = now + std::max(silence_ / kSignsPerSilence, kSweepPause);
}

void Agent::look_around(Clock::time_point now) {
  show_life(now);
  if (stage_ == Stage::running) protect_orphans(now);
  if (stage_ == Stage::seeking) seek();
  if (watches_launcher() && now - heard_ >= silence_) abandon();
  if (stage_ == Stage::running && now >= kill_at_ && ranks_ && !ranks_->all_ended()) {
    ranks_->signal_ranks(SIGKILL);
    signal_job(mark_, SIGKILL);
  }
  if (stage_ == Stage::ending) end(now);
  if (stage_ != Stage::draining) return;
  output_.close_silent_streams(kOutsiderSilence);
  if (output_.streams_open()) return;
  guardian_.reset();  // it goes first: after this word the launcher may end us at once
  send(agent::Done{});
  stage_ = Stage::done;
}

void Agent::end(Clock::time_point now) {
  const bool kill = now >= kill_at_;
  const std::size_t living = signal_job(mark_, kill ? SIGKILL : 0);
  if (living > 0 && !(kill && now >= kill_at_ + kAfterKill)) return;
  stage_ = abandoned_ ? Stage::done : Stage::draining;
}

Clock::time_point Agent::next_look(Clock::time_point now) const {
  if (stage_ == Stage::seeking) return now;
  if (stage_ == Stage::ending) return now + kSweepPause;
  if (stage_ == Stage::draining) return now + 5 * kSweepPause;
  auto next = abandoned_ ? now + std::chrono::hours(1) : std::min(now + std::chrono::hours(1), next_sign_);
  if (watches_launcher()) next = std::min(next, heard_ + silence_);
  if (!ranks_) return next;
  if (stage_ == Stage::running) next = std::min(next, next_orphans_);
  if (kill_at_ != Clock::time_point::max() && !ranks_->all_ended())
    next = std::min(next, std::max(kill_at_, now + kSweepPause));
  return next;
}

}  // namespace

int run_agent(AgentSetup setup) {
  auto made = Agent::create(std::move(setup));
  if (!made.ok()) {
    fmt::print(stderr, "rondelrun --agent: {}\n", made.status().text());
    return 1;
  }
  (*made)->run();
  return 0;
}

Result<LocalAgent> fork_agent(const std::string& version, doctor::TransportLook look) {
  constexpr int kPipeBytes = 1 << 20;
  int down[2], up[2];
  if (::pipe2(down, O_CLOEXEC) != 0) return system_failure(Code::out_of_resources, "pipe", errno);
  UniqueFd from_launcher(down[0]), to_agent(down[1]);
  if (::pipe2(up, O_CLOEXEC) != 0) return system_failure(Code::out_of_resources, "pipe", errno);
  UniqueFd from_agent(up[0]), to_launcher(up[1]);
  ::fcntl(up[1], F_SETPIPE_SZ, kPipeBytes);  // faster when the system grants it
  const pid_t pid = ::fork();
  if (pid < 0) return system_failure(Code::out_of_resources, "fork", errno);
  if (pid > 0) return LocalAgent{pid, std::move(to_agent), std::move(from_agent)};
  ::setsid();  // the terminal's signals are not for it
  ::prctl(PR_SET_NAME, "rondelrun-agent");
  // It must not hold the launcher's output open: its readers wait for the end.
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDOUT_FILENO);
  ::dup2(nothing, STDERR_FILENO);
  to_agent.reset();
  from_agent.reset();
  ::_exit(run_agent({.from_launcher = std::move(from_launcher),
                     .to_launcher = std::move(to_launcher),
                     .version = version,
                     .elsewhere = false,
                     .look = std::move(look)}));
}

}  // namespace rondel
