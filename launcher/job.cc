// SPDX-License-Identifier: Apache-2.0
#include "launcher/job.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "launcher/arrival_watch.h"
#include "launcher/fleet.h"
#include "launcher/input_source.h"
#include "launcher/job_order.h"
#include "launcher/job_report.h"
#include "launcher/job_store.h"
#include "launcher/log_relay.h"
#include "launcher/resources.h"
#include "launcher/station.h"
#include "launcher/supervisor.h"

namespace rondel {
namespace {

using Clock = Deadline::Clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kArrivalPause{500};  // between looks at who has joined, at most
// The first rank whose patience ends ends the job; who is missing is told before that.
constexpr Milliseconds kBeforeRanksGiveUp{1000};
constexpr Milliseconds kMoreFailures{2'000};  // after a first failed login, to hear of the others
constexpr Milliseconds kAfterKill{10'000};    // until an agent that was told to kill is given up
constexpr Milliseconds kUnreadOutput{3'000};  // after the grace of a job that was stopped
constexpr Milliseconds kShortestWait{5};
constexpr std::size_t kReportedErrorLines = 5, kLateRankLines = 2;

std::vector<Rank> every_rank(const JobPlan& plan) {
  std::vector<Rank> ranks;
  for (const RankPlace& place : plan.places) ranks.push_back(place.rank);
  return ranks;
}

std::vector<std::string> hosts_of_ranks(const JobPlan& plan) {
  std::vector<std::string> hosts;
  for (const RankPlace& place : plan.places) hosts.push_back(label_of(plan.hosts[place.host]));
  return hosts;
}

class Job final : public HostLink::Listener {
 public:
  static Result<std::unique_ptr<Job>> create(const Options& options, const JobPlan& plan,
                                             const std::string& version);
  int run();

 private:
  enum class Stage { launching, running, cleaning, draining, done };

  Job(const Options& options, const JobPlan& plan, const std::string& version, Station station)
      : options_(options),
        plan_(plan),
        secret_(station.secret),
        signals_(std::move(station.signals)),
        loop_(std::move(station.loop)),
        arrivals_(plan.size(), plan.start_timeout - std::min(kBeforeRanksGiveUp, plan.start_timeout / 4),
                  plan.leaves_this_host() ? hosts_of_ranks(plan) : std::vector<std::string>()),
        relay_(loop_, {plan.size(), options.tag_output, options.timestamp_output, options.output_directory}),
        supervisor_(plan.size(), options.kill_grace, Clock::now()),
        fleet_(loop_, plan, options.ssh, version, *this),
        input_(loop_, [this](const agent::FromLauncher& message) {
          if (plan_.stdin_rank) fleet_.link_of(*plan_.stdin_rank).send(message);
        }) {}

  Status prepare(LocalAgent local, const rlimit& descriptor_limit);
  void heard(HostLink& link, agent::FromAgent& message) override;
  void lost(HostLink& link, HostLink::Stage before, const std::string& why) override;
  void delayed(HostLink& link, const std::string& why) override;
  void ssh_said(HostLink& link, const std::string& line) override;
  void take(HostLink& link, const agent::Hello& hello);
  void take(HostLink& link, const agent::Started& started);
  void take(HostLink& link, const agent::Output& output);
  void take(HostLink& link, const agent::OutputEnd& end);
  void take(HostLink& link, const agent::Ended& ended);
  void take(HostLink& link, const agent::StartFailed& failure);
  void take(HostLink& link, const agent::Joined& joined);
  void take(HostLink& link, const agent::InputRoom& room);
  void take(HostLink& link, const agent::Done& done);
  template <class Message>  // Alive, and what only an examination asks for
  void take(HostLink&, const Message&) {}
  void lose_ranks(const HostLink& link, const std::string& why);
  void end_streams(const HostLink& link);
  void launch(Clock::time_point now);
  void warn_of_twins();
  void give_orders();
  void take_signals();
  void take_signal(int signal);
  void suspend();
  void tell_first_failure(bool known_before);
  void tell_of_late(Rank rank);
  void look_around(Clock::time_point now);
  void advance(Clock::time_point now);
  void send_due_signal(Clock::time_point now);
  std::optional<Clock::time_point> timeout_due() const;
  std::optional<Clock::time_point> patience_ends() const;
  Clock::time_point next_look(Clock::time_point now) const;
  void report();
  const std::string& host_of(Rank rank) const { return fleet_.link_of(rank).setup().label; }

  const Options& options_;
  const JobPlan& plan_;
  Secret secret_;
  SignalSource signals_;
  EventLoop loop_;
  ArrivalWatch arrivals_;
  LogRelay relay_;
  Supervisor supervisor_;
  Fleet fleet_;
  InputSource input_;
  JobStore store_;
  std::string name_;
  std::vector<pid_t> pids_;
  Stage stage_ = Stage::launching;
  int sent_ = 0;  // the hardest signal sent so far
  bool output_failed_ = false;
  bool timed_out_ = false;
  bool reported_ = false;
  bool impatient_ = false;  // nobody is to wait for the rest of the output
  std::optional<Clock::time_point> first_login_failure_;
  std::optional<Clock::time_point> killed_;
  Clock::time_point cleaning_since_{};
  std::optional<Clock::time_point> told_to_leave_;
  Clock::time_point start_ = Clock::now();
};

Result<std::unique_ptr<Job>> Job::create(const Options& options, const JobPlan& plan,
                                         const std::string& version) {
  auto name = make_job_name();
  if (!name.ok()) return std::move(name).status();
  auto station = make_station(plan, version, !options.output_directory.empty());
  if (!station.ok()) return std::move(station).status();
  RONDEL_TRY(station->descriptor_limit);
  const rlimit descriptor_limit = *station->descriptor_limit;
  LocalAgent local = std::move(station->local);
  std::unique_ptr<Job> job(new Job(options, plan, version, *std::move(station)));
  job->name_ = *std::move(name);
  RONDEL_TRY(job->prepare(std::move(local), descriptor_limit));
  return job;
}

Status Job::prepare(LocalAgent local, const rlimit& descriptor_limit) {
  auto store = start_job_store(plan_, secret_);
  if (!store.ok()) return std::move(store).status();
  store_ = *std::move(store);
  pids_.assign(plan_.places.size(), -1);
  for (const RankPlace& place : plan_.places)
    RONDEL_TRY(relay_.add({place.rank, plan_.size(), plan_.hosts[place.host].name, name_}));
  RONDEL_TRY(loop_.watch(signals_.fd(), EPOLLIN, [this] { take_signals(); }));
  fleet_.start(std::move(local), login_request(signals_, descriptor_limit));
  return {};
}

int Job::run() {
  for (const std::string& warning : options_.warnings) relay_.say(warning);
  for (const std::string& warning : plan_.environment.warnings) relay_.say(warning);
  if (options_.verbose) relay_.say(fmt::format("{}, store tcp://{}", name_, store_.server->address()));
  while (stage_ != Stage::done) {
    const Status waited = loop_.wait(next_look(Clock::now()) - Clock::now());
    if (!waited.ok()) {
      relay_.say(waited.text());
      break;
    }
    look_around(Clock::now());
    relay_.settle();
    for (const auto stream : {agent::Stream::standard_output, agent::Stream::standard_error})
      if (relay_.has_room(stream)) fleet_.return_room(stream);
  }
  const int code = supervisor_.exit_code();
  return code == 0 && relay_.lost_in_files() ? 1 : code;
}

void Job::heard(HostLink& link, agent::FromAgent& message) {
  std::visit([this, &link](const auto& one) { take(link, one); }, message);
}

void Job::take(HostLink& link, const agent::Hello& hello) {
  if (options_.verbose && !link.setup().local)
    relay_.say(fmt::format("host {} calls itself {}; its agent is process {}", link.setup().label, hello.host,
                           hello.pid));
}

void Job::take(HostLink& link, const agent::Joined& joined) {
  if (options_.verbose)
    relay_.say(fmt::format("host {} reaches the store at {}", link.setup().label, joined.store));
}

void Job::take(HostLink& link, const agent::Started& started) {
  pids_[static_cast<std::size_t>(started.rank)] = started.pid;
  if (options_.verbose)
    relay_.say(fmt::format("rank {} is process {} on {}{}{}", started.rank, started.pid, link.setup().label,
                           started.cpus.empty() ? "" : ", bound to cpus ", started.cpus));
}

void Job::take(HostLink&, const agent::Output& output) {
  relay_.feed(output.rank, output.stream,
              {reinterpret_cast<const char*>(output.bytes.data()), output.bytes.size()});
}

void Job::take(HostLink&, const agent::OutputEnd& end) { relay_.end(end.rank, end.stream); }

void Job::take(HostLink&, const agent::Ended& ended) {
  const bool known_before = supervisor_.cause_is_known();
  supervisor_.ranks_ended(ended.ranks, Clock::now(), store_.server->first_fallen_rank());
  tell_first_failure(known_before);
}

void Job::take(HostLink& link, const agent::StartFailed& failure) {
  relay_.say(link.setup().local ? failure.why : fmt::format("host {}: {}", link.setup().label, failure.why));
  std::vector<Rank> ranks = link.ranks();
  std::erase_if(ranks, [this](Rank rank) { return pids_[static_cast<std::size_t>(rank)] > 0; });
  supervisor_.launch_failed(ranks, Clock::now());
}

void Job::take(HostLink& link, const agent::InputRoom& room) {
  if (plan_.stdin_rank && &fleet_.link_of(*plan_.stdin_rank) == &link) input_.grant(room.bytes);
}

void Job::take(HostLink& link, const agent::Done&) {
  end_streams(link);
  if (supervisor_.any_runs(link.ranks())) lose_ranks(link, "its agent left before its ranks had ended");
}

void Job::lose_ranks(const HostLink& link, const std::string& why) {
  const std::vector<Rank> ranks = link.ranks();
  relay_.say(fmt::format("lost contact with host {} ({}): {}", link.setup().label, text_of(ranks), why));
  supervisor_.host_lost(ranks, Clock::now(), store_.server->first_fallen_rank());
}

void Job::end_streams(const HostLink& link) {
  for (const Rank rank : link.ranks())
    for (const auto stream : {agent::Stream::standard_output, agent::Stream::standard_error})
      relay_.end(rank, stream);
}

void Job::lost(HostLink& link, HostLink::Stage before, const std::string& why) {
  if (stage_ == Stage::launching) {
    relay_.say(fmt::format("host {}: {}", link.setup().label, why));
    if (!first_login_failure_) first_login_failure_ = Clock::now();
    return;
  }
  end_streams(link);
  if (before == HostLink::Stage::ordered) lose_ranks(link, why);
}

void Job::delayed(HostLink& link, const std::string& why) {
  relay_.say(fmt::format("host {}: {}; trying again for {:g} s", link.setup().label, why,
                         static_cast<double>(options_.ssh.wait.count()) / 1000.0));
}

void Job::ssh_said(HostLink& link, const std::string& line) {
  if (options_.verbose) relay_.say(fmt::format("ssh to {}: {}", link.setup().label, line));
}

/// Once all hosts have answered, all start; when some do not, none does.
void Job::launch(Clock::time_point now) {
  if (fleet_.all(HostLink::Stage::greeted)) return give_orders();
  const bool waits = fleet_.any(HostLink::Stage::connecting) || fleet_.any(HostLink::Stage::unstarted);
  const bool failed = first_login_failure_ && (!waits || now >= *first_login_failure_ + kMoreFailures);
  if (!failed && supervisor_.signal_due(now) == 0) return;
  stage_ = Stage::running;
  supervisor_.launch_failed(every_rank(plan_), now);
  fleet_.drop_unordered();
}

/// Two names of one machine: both would begin to count its ranks, and its devices, at 0.
void Job::warn_of_twins() {
  std::map<std::string, std::string> label_of_machine;
  for (const auto& link : fleet_.links()) {
    const std::string& machine = link->hello().machine;
    const auto [known, is_new] = label_of_machine.emplace(machine, link->setup().label);
    if (!is_new && !machine.empty())
      relay_.say(fmt::format(
          "hosts {} and {} are one machine, whose local ranks are counted twice; give it one name",
          known->second, link->setup().label));
  }
}

void Job::give_orders() {
  stage_ = Stage::running;
  warn_of_twins();
  const HostLink& head = fleet_.link_of(0);
  OrderFacts facts{.job = name_,
                   .own_store = store_.own_address,
                   .addresses = store_.addresses,
                   .head = head.hello(),
                   .head_is_local = head.setup().local,
                   .input_is_taken = input_is_taken()};
  for (const auto& link : fleet_.links()) {
    facts.output_window = link->setup().window;
    link->give(make_order(options_, plan_, facts, secret_, link->setup().ranks, link->setup().local));
  }
}

void Job::take_signals() {
  for (const int signal : signals_.take()) take_signal(signal);
}

void Job::take_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      return;  // the links look for themselves
    case SIGUSR1:
    case SIGUSR2:
      return fleet_.tell(agent::Signal{signal});
    case SIGTSTP:
      return suspend();
    default:
      break;
  }
  if (stage_ == Stage::draining || (stage_ == Stage::cleaning && supervisor_.asked_to_stop()))
    impatient_ = true;  // only somebody who does not read our output holds us
  if (supervisor_.signal_due(Clock::now()) == 0)
    relay_.say(fmt::format("SIG{}: stopping the ranks; once more kills them", ::sigabbrev_np(signal)));
  supervisor_.signalled(signal, Clock::now());
  if (stage_ == Stage::cleaning) fleet_.tell(agent::Kill{});
}

/// Stops this process, unless nobody could continue it (a process group without a shell above it).
void stop_as_terminal_would() {
  sigset_t terminal_stop;
  ::sigemptyset(&terminal_stop);
  ::sigaddset(&terminal_stop, SIGTSTP);
  ::raise(SIGTSTP);  // blocked: waits for the next line
  ::pthread_sigmask(SIG_UNBLOCK, &terminal_stop, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &terminal_stop, nullptr);
}

/// Ctrl-Z: the ranks, in sessions of their own, do not get it from the terminal.
void Job::suspend() {
  fleet_.tell(agent::Signal{SIGSTOP});
  fleet_.flush_within(Milliseconds(500));
  stop_as_terminal_would();
  fleet_.tell(agent::Signal{SIGCONT});
  input_.resume();
}

void Job::tell_first_failure(bool known_before) {
  const auto first = supervisor_.first_failed();
  if (known_before || !supervisor_.cause_is_known() || supervisor_.all_ended()) return;
  const std::string where = plan_.leaves_this_host() ? " on " + host_of(*first) : std::string();
  relay_.say(fmt::format("rank {}{}: {}; stopping the others", *first, where,
                         ending_text(supervisor_.records()[static_cast<std::size_t>(*first)])));
}

void Job::look_around(Clock::time_point now) {
  fleet_.look(now);
  if (relay_.output_error() != 0 && !output_failed_) {
    output_failed_ = true;
    if (relay_.output_error() != EPIPE)
      relay_.say(system_failure(Code::io_error, "writing standard output", relay_.output_error()).text());
    supervisor_.output_failed(relay_.output_error(), now);
  }
  if (const auto due = timeout_due(); due && now >= *due) {
    timed_out_ = true;
    relay_.say(fmt::format("the job has run for --timeout {} s; stopping it",
                           static_cast<double>(options_.timeout->count()) / 1000.0));
    supervisor_.timed_out(now);
  }
  if (!arrivals_.over()) {
    const auto warning = arrivals_.look(store_.server->arrived_ranks(), now);
    if (warning) relay_.say(*warning);
    for (const Rank rank : warning ? arrivals_.named() : std::vector<Rank>()) tell_of_late(rank);
  }
  advance(now);
}

void Job::tell_of_late(Rank rank) {
  const auto& record = supervisor_.records()[static_cast<std::size_t>(rank)];
  const auto lines = relay_.last_error_lines(rank, kLateRankLines);
  for (const std::string& line : late_rank_report(rank, host_of(rank), record, lines)) relay_.say(line);
}

/// Counts until all ranks have ended.
std::optional<Clock::time_point> Job::timeout_due() const {
  const bool early = stage_ == Stage::launching || stage_ == Stage::running;
  if (!options_.timeout || timed_out_ || !early) return std::nullopt;
  return start_ + *options_.timeout;
}

/// Who has stopped a job waits for its output for a while only; who reads the output of one that has ended by
/// itself may take as long as they want.
std::optional<Clock::time_point> Job::patience_ends() const {
  const bool stopped = supervisor_.asked_to_stop() || timed_out_;
  if (!stopped || impatient_ || (stage_ != Stage::cleaning && stage_ != Stage::draining)) return std::nullopt;
  return std::max(cleaning_since_, *supervisor_.kill_at()) + kUnreadOutput;
}

void Job::advance(Clock::time_point now) {
  if (stage_ == Stage::launching) launch(now);
  if (stage_ == Stage::running && supervisor_.all_ended()) {
    stage_ = Stage::cleaning;
    cleaning_since_ = now;
    supervisor_.clean_up(now);
    const auto grace = std::chrono::duration_cast<Milliseconds>(*supervisor_.kill_at() - now);
    fleet_.tell(agent::Finish{std::max(grace, Milliseconds(0))});
  }
  if (stage_ == Stage::running) send_due_signal(now);
  if (stage_ == Stage::running && killed_ && now >= *killed_ + kAfterKill)
    fleet_.drop("its agent does not end its ranks",
                [this](const HostLink& link) { return supervisor_.any_runs(link.ranks()); });
  if (const auto end = patience_ends(); end && now >= *end) {
    impatient_ = true;
    if (relay_.pending()) relay_.say("output that nobody reads is dropped");
    fleet_.tell(agent::Kill{});
  }
  if (stage_ == Stage::cleaning && impatient_ && !told_to_leave_) told_to_leave_ = now;
  if (stage_ == Stage::cleaning && told_to_leave_ && now >= *told_to_leave_ + kAfterKill / 2)
    fleet_.drop("its agent does not leave", [](const HostLink&) { return true; });
  if (stage_ == Stage::cleaning && fleet_.over()) stage_ = Stage::draining;
  if (stage_ != Stage::draining) return;
  report();
  relay_.settle();
  if (!relay_.pending() || impatient_) stage_ = Stage::done;
}

void Job::send_due_signal(Clock::time_point now) {
  const int due = supervisor_.signal_due(now);
  if (due == sent_) return;
  if (due == SIGKILL) {
    fleet_.tell(agent::Kill{});
    killed_ = now;
  } else {
    fleet_.tell(agent::Signal{due});
    fleet_.tell(agent::Signal{SIGCONT});  // a stopped process would not notice
  }
  sent_ = due;
}

Clock::time_point Job::next_look(Clock::time_point now) const {
  auto next = std::min(now + std::chrono::hours(1), fleet_.next_look());
  // What was pending when we looked may have left since, and then nothing would wake us.
  if (stage_ == Stage::draining && !relay_.pending()) return now;
  if (!arrivals_.over() && stage_ == Stage::running)
    next = std::min(next, now + std::min(kArrivalPause, plan_.start_timeout / 10));
  if (first_login_failure_ && stage_ == Stage::launching)
    next = std::min(next, *first_login_failure_ + kMoreFailures);
  if (const auto kill_at = supervisor_.kill_at(); kill_at && stage_ == Stage::running)
    next = std::min(next, sent_ == 0 ? now : sent_ == SIGKILL ? *killed_ + kAfterKill : *kill_at);
  for (const auto due : {timeout_due(), patience_ends()})
    if (due) next = std::min(next, *due);
  if (stage_ == Stage::cleaning && told_to_leave_) next = std::min(next, *told_to_leave_ + kAfterKill / 2);
  return std::max(next, now + kShortestWait);  // whatever is due and does not go away
}

void Job::report() {
  const auto first = supervisor_.first_failed();
  if ((!first && !timed_out_) || reported_) return;
  reported_ = true;
  const auto error_lines =
      first ? relay_.last_error_lines(*first, kReportedErrorLines) : std::vector<std::string>();
  std::vector<RankProcess> processes;
  processes.reserve(pids_.size());
  for (Rank rank = 0; rank < plan_.size(); ++rank)
    processes.push_back({host_of(rank), pids_[static_cast<std::size_t>(rank)]});
  for (const std::string& line : job_report(supervisor_, processes, error_lines)) relay_.say(line);
}

}  // namespace

int run_job(const Options& options, const JobPlan& plan, const std::string& version) {
  auto job = Job::create(options, plan, version);
  if (job.ok()) return (*job)->run();
  fmt::print(stderr, "rondelrun: {}\n", job.status().text());
  return kLaunchFailureExit;
}

}  // namespace rondel
