// SPDX-License-Identifier: Apache-2.0
#include "launcher/job.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "launcher/agent.h"
#include "launcher/arrival_watch.h"
#include "launcher/event_loop.h"
#include "launcher/guardian.h"
#include "launcher/job_processes.h"
#include "launcher/job_report.h"
#include "launcher/log_relay.h"
#include "launcher/resources.h"
#include "launcher/signals.h"
#include "launcher/supervisor.h"
#include "lib/auth.h"
#include "lib/store/tcp_server.h"

namespace rondel {
namespace {

using Clock = Deadline::Clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kSweepPause{20};        // between looks for processes that should have ended
constexpr Milliseconds kArrivalPause{500};     // between looks at who has joined
constexpr Milliseconds kOutsiderSilence{500};  // after the job's end, for output that outsiders hold open
constexpr std::size_t kReportedErrorLines = 5;

class Job {
 public:
  static Result<std::unique_ptr<Job>> create(const Options& options, const JobPlan& plan);
  int run();

 private:
  enum class Stage { running, cleaning, draining, done };

  Job(const Options& options, const JobPlan& plan, const Secret& secret, SignalSource signals,
      Guardian guardian, EventLoop loop)
      : options_(options),
        plan_(plan),
        secret_(secret),
        signals_(std::move(signals)),
        guardian_(std::move(guardian)),
        loop_(std::move(loop)),
        arrivals_(plan.size(), plan.start_timeout),
        relay_(loop_, {plan.size(), options.tag_output, options.timestamp_output, options.output_directory}),
        supervisor_(plan.size(), options.kill_grace, Clock::now()) {}

  Status prepare(const std::string& name, const rlimit& descriptor_limit);
  void start_ranks();
  Status start_rank(const RankPlace& place);
  void take_signals();
  void take_signal(int signal);
  void suspend();
  void take_endings();
  void look_around(Clock::time_point now);
  void send_due_signal(Clock::time_point now);
  void advance(Clock::time_point now);
  void clean(Clock::time_point now);
  Clock::time_point next_look(Clock::time_point now) const;
  void report();

  const Options& options_;
  const JobPlan& plan_;
  Secret secret_;
  SignalSource signals_;
  Guardian guardian_;
  EventLoop loop_;
  ArrivalWatch arrivals_;
  LogRelay relay_;
  Supervisor supervisor_;
  std::unique_ptr<TcpServer> store_;
  std::unique_ptr<Agent> agent_;
  JobMark mark_;
  std::vector<pid_t> pids_;
  Stage stage_ = Stage::running;
  int sent_ = 0;  // the hardest signal sent so far
  bool output_failed_ = false;
  bool timed_out_ = false;
  bool reported_ = false;
  Clock::time_point start_ = Clock::now();
};

Result<std::unique_ptr<Job>> Job::create(const Options& options, const JobPlan& plan) {
  auto name = make_job_name();
  if (!name.ok()) return std::move(name).status();
  const auto descriptor_limit = make_room_for_descriptors(plan.size());
  if (!descriptor_limit.ok()) return descriptor_limit.status();
  auto secret = Secret::generate();
  if (!secret.ok()) return std::move(secret).status();
  auto signals = SignalSource::create();
  if (!signals.ok()) return std::move(signals).status();
  auto guardian = Guardian::start(*name, options.kill_grace);
  if (!guardian.ok()) return std::move(guardian).status();
  auto loop = EventLoop::create();
  if (!loop.ok()) return std::move(loop).status();
  std::unique_ptr<Job> job(
      new Job(options, plan, *secret, *std::move(signals), *std::move(guardian), *std::move(loop)));
  RONDEL_TRY(job->prepare(*name, *descriptor_limit));
  return job;
}

Status Job::prepare(const std::string& name, const rlimit& descriptor_limit) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of the job come to us, not to init
  auto store = TcpServer::start({.bind_address = kLoopback}, secret_);
  if (!store.ok()) return std::move(store).status();
  store_ = *std::move(store);
  const auto port = find_free_port();
  if (!port.ok()) return port.status();
  HostJob host_job{.ranks = plan_.places,
                   .program = plan_.program,
                   .environment = plan_.environment,
                   .contact = {.job = name,
                               .store = "tcp://" + store_->address(),
                               .master_address = kLoopback,
                               .master_port = *port},
                   .directory = plan_.directory,
                   .stdin_rank = plan_.stdin_rank,
                   .signal_mask = signals_.original_mask(),
                   .descriptor_limit = descriptor_limit};
  agent_ = std::make_unique<Agent>(std::move(host_job), secret_);
  mark_ = {.job = name, .sessions = {}, .adopter = ::getpid(), .spared = {::getpid(), guardian_.pid()}};
  return loop_.watch(signals_.fd(), EPOLLIN, [this] { take_signals(); });
}

int Job::run() {
  for (const std::string& warning : options_.warnings) relay_.say(warning);
  for (const std::string& warning : plan_.environment.warnings) relay_.say(warning);
  start_ranks();
  while (stage_ != Stage::done) {
    const Status waited = loop_.wait(next_look(Clock::now()) - Clock::now());
    if (!waited.ok()) {
      relay_.say(waited.text());
      break;
    }
    look_around(Clock::now());
    relay_.settle();
  }
  return supervisor_.exit_code();
}

void Job::start_ranks() {
  if (options_.verbose)
    relay_.say(fmt::format("{}, store {}", agent_->job().contact.job, agent_->job().contact.store));
  for (const RankPlace& place : agent_->job().ranks) {
    const Status started = start_rank(place);
    if (started.ok()) continue;
    relay_.say(started.text());
    supervisor_.launch_failed(static_cast<Rank>(pids_.size()), Clock::now());
    break;
  }
  relay_.settle();
}

Status Job::start_rank(const RankPlace& place) {
  auto started = agent_->start(place);
  if (!started.ok()) return std::move(started).status();
  pids_.push_back(started->pid);
  mark_.sessions.push_back(started->pid);
  guardian_.protect(started->pid);
  if (options_.verbose)
    relay_.say(fmt::format("rank {} is process {} on {}", place.rank, started->pid, plan_.host));
  RONDEL_TRY(relay_.add(place.rank, LogRelay::Stream::standard_output, std::move(started->standard_output)));
  return relay_.add(place.rank, LogRelay::Stream::standard_error, std::move(started->standard_error));
}

void Job::take_signals() {
  for (const int signal : signals_.take()) take_signal(signal);
}

void Job::take_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      return take_endings();
    case SIGUSR1:
    case SIGUSR2:
      return agent_->signal_ranks(signal);
    case SIGTSTP:
      return suspend();
    default:
      break;
  }
  if (stage_ == Stage::draining) stage_ = Stage::done;  // only somebody who does not read our output holds us
  if (supervisor_.signal_due(Clock::now()) == 0)
    relay_.say(fmt::format("SIG{}: stopping the ranks; once more kills them", ::sigabbrev_np(signal)));
  supervisor_.signalled(signal, Clock::now());
}

/// Ctrl-Z: the ranks, in sessions of their own, do not get it from the terminal.
void Job::suspend() {
  agent_->signal_ranks(SIGSTOP);
  ::raise(SIGSTOP);
  agent_->signal_ranks(SIGCONT);
}

void Job::take_endings() {
  const auto endings = agent_->collect();
  if (endings.empty()) return collect_orphans(mark_);
  const bool known_before = supervisor_.cause_is_known();
  supervisor_.ranks_ended(endings, Clock::now(), store_->first_fallen_rank());
  const auto first = supervisor_.first_failed();
  if (known_before || !supervisor_.cause_is_known() || supervisor_.all_ended()) return;
  relay_.say(fmt::format("rank {}: {}; stopping the others", *first,
                         ending_text(supervisor_.records()[static_cast<std::size_t>(*first)])));
}

void Job::look_around(Clock::time_point now) {
  if (relay_.output_error() != 0 && !output_failed_) {
    output_failed_ = true;
    if (relay_.output_error() != EPIPE)
      relay_.say(system_failure(Code::io_error, "writing standard output", relay_.output_error()).text());
    supervisor_.output_failed(relay_.output_error(), now);
  }
  if (options_.timeout && !timed_out_ && stage_ == Stage::running && now >= start_ + *options_.timeout) {
    timed_out_ = true;
    relay_.say(fmt::format("the job has run for --timeout {} s; stopping it",
                           static_cast<double>(options_.timeout->count()) / 1000.0));
    supervisor_.timed_out(now);
  }
  if (!arrivals_.over()) {
    const auto arrived = store_->arrived_ranks();
    if (const auto warning = arrivals_.look(arrived, now)) relay_.say(*warning);
  }
  advance(now);
}

void Job::advance(Clock::time_point now) {
  if (stage_ == Stage::running && supervisor_.all_ended()) {
    stage_ = Stage::cleaning;
    sent_ = 0;
    supervisor_.clean_up(now);
  }
  if (stage_ == Stage::running) send_due_signal(now);
  if (stage_ == Stage::cleaning) clean(now);
  if (stage_ != Stage::draining) return;
  relay_.close_silent_streams(kOutsiderSilence);
  if (relay_.streams_open()) return;
  report();
  relay_.settle();
  if (!relay_.pending()) stage_ = Stage::done;
}

void Job::send_due_signal(Clock::time_point now) {
  const int due = supervisor_.signal_due(now);
  if (due == SIGKILL) {
    agent_->signal_ranks(SIGKILL);
    signal_job(mark_, SIGKILL);
  } else if (due != sent_) {
    agent_->signal_ranks(due);
    agent_->signal_ranks(SIGCONT);  // a stopped process would not notice
  }
  sent_ = due;
}

/// All ranks have ended: what they left behind is stopped too.
void Job::clean(Clock::time_point now) {
  const int due = supervisor_.signal_due(now);
  const std::size_t living = signal_job(mark_, due == SIGKILL || due != sent_ ? due : 0);
  sent_ = due;
  if (living == 0 || now >= *supervisor_.kill_at() + std::chrono::seconds(2)) stage_ = Stage::draining;
}

Clock::time_point Job::next_look(Clock::time_point now) const {
  if (stage_ == Stage::cleaning || sent_ == SIGKILL) return now + kSweepPause;
  if (stage_ == Stage::draining) {
    if (relay_.streams_open()) return now + 5 * kSweepPause;
    // What was pending when we looked may have left since, and then nothing would wake us.
    return relay_.pending() ? now + Milliseconds(60'000) : now;
  }
  auto next = now + std::chrono::hours(1);
  if (!arrivals_.over()) next = std::min(next, now + kArrivalPause);
  if (const auto kill_at = supervisor_.kill_at()) next = std::min(next, sent_ == 0 ? now : *kill_at);
  if (options_.timeout && !timed_out_) next = std::min(next, start_ + *options_.timeout);
  return next;
}

void Job::report() {
  const auto first = supervisor_.first_failed();
  if ((!first && !timed_out_) || reported_) return;
  reported_ = true;
  const auto error_lines =
      first ? relay_.last_error_lines(*first, kReportedErrorLines) : std::vector<std::string>();
  for (const std::string& line : job_report(supervisor_, pids_, plan_.host, error_lines)) relay_.say(line);
}

}  // namespace

int run_job(const Options& options, const JobPlan& plan) {
  auto job = Job::create(options, plan);
  if (job.ok()) return (*job)->run();
  fmt::print(stderr, "rondelrun: {}\n", job.status().text());
  return kLaunchFailureExit;
}

}  // namespace rondel
