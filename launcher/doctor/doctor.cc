// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/doctor.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "launcher/doctor/clock_probe.h"
#include "launcher/doctor/command.h"
#include "launcher/doctor/facts_json.h"
#include "launcher/doctor/page.h"
#include "launcher/doctor/probe_targets.h"
#include "launcher/doctor/report_json.h"
#include "launcher/doctor/schedule.h"
#include "launcher/fleet.h"
#include "launcher/job_store.h"
#include "launcher/station.h"
#include "launcher/supervisor.h"
#include "launcher/visible_text.h"

namespace rondel::doctor {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kFactsTime{20'000};   // a resolver without an answer takes 10 s and more
constexpr milliseconds kPatience{2'000};     // for one address
constexpr milliseconds kReachTime{8'000};    // for all addresses
constexpr milliseconds kBudget{24'000};      // for measuring
constexpr milliseconds kMeasureTime{4'000};  // for one pair that does not get on
constexpr milliseconds kSlack{4'000};        // beyond what an agent was given, until it is given up
constexpr milliseconds kLeaveTime{3'000};
constexpr milliseconds kLongestWait{500};
constexpr std::size_t kMostWords = 400;  // bytes of a host's reason

class Doctor final : public HostLink::Listener {
 public:
  static Result<std::unique_ptr<Doctor>> create(const Options& options, const JobPlan& plan,
                                                const DoctorSetup& setup);
  int run();

 private:
  enum class Stage { examining, reaching, measuring, leaving, done };
  struct Patient {
    ClockProbe clock;
    Clock::time_point due = Clock::time_point::max();  // of what it was asked
    bool answered = false;                             // likewise
  };

  Doctor(const Options& options, const JobPlan& plan, const DoctorSetup& setup, Station station)
      : options_(options),
        plan_(plan),
        setup_(setup),
        secret_(station.secret),
        signals_(std::move(station.signals)),
        loop_(std::move(station.loop)),
        fleet_(loop_, plan, options.ssh, setup.version, *this) {}

  Status prepare(LocalAgent local, const Result<rlimit>& descriptor_limit);
  void heard(HostLink& link, agent::FromAgent& message) override;
  void lost(HostLink& link, HostLink::Stage before, const std::string& why) override;
  void delayed(HostLink& link, const std::string& why) override;
  void ssh_said(HostLink& link, const std::string& line) override;
  template <class Message>  // those that only a job's agent sends
  void take(HostLink&, const Message&) {}
  void take(HostLink& link, const agent::Hello& hello);
  void take(HostLink& link, const agent::Examined& examined);
  void take(HostLink& link, const agent::ClockTell& tell);
  void take(HostLink& link, const agent::Reached& reached);
  void take(HostLink& link, const agent::Measured& measured);
  void take(HostLink& link, const agent::StartFailed& failed);
  void take(HostLink& link, const agent::Done& done);
  void take_signals();
  void suspend();
  void stop(const std::string& why, int exit_code, Clock::time_point now);
  void ask_clock(HostLink& link);
  void advance(Clock::time_point now);
  void drop_late(Clock::time_point now, const std::string& what);
  bool examined(std::size_t host) const;
  void start_reaching(Clock::time_point now);
  void start_measuring(Clock::time_point now);
  void measure_next(Clock::time_point now);
  void leave(Clock::time_point now);
  int report();
  void say(const std::string& text) const { fmt::print(stderr, "rondelrun: {}\n", one_line(text)); }
  void tell_progress(const std::string& text) const {
    if (options_.verbose || ::isatty(STDERR_FILENO) == 1) say(text);
  }
  std::size_t index_of(const HostLink& link) const;
  HostLink& link(std::size_t host) const { return *fleet_.links()[host]; }
  Patient& patient(const HostLink& link) { return patients_[index_of(link)]; }
  HostFindings& host(const HostLink& link) { return findings_.hosts[index_of(link)]; }

  const Options& options_;
  const JobPlan& plan_;
  const DoctorSetup& setup_;
  Secret secret_;
  SignalSource signals_;
  EventLoop loop_;
  Fleet fleet_;
  JobStore store_;
  Findings findings_;
  std::vector<Patient> patients_;
  Schedule schedule_;
  std::size_t next_pair_ = 0;
  bool pair_is_open_ = false;
  Clock::time_point measured_until_{};
  Stage stage_ = Stage::examining;
  Clock::time_point leave_due_{};
  int signal_ = 0;
  std::optional<int> early_exit_;
  Clock::time_point start_ = Clock::now();
};

Result<std::unique_ptr<Doctor>> Doctor::create(const Options& options, const JobPlan& plan,
                                               const DoctorSetup& setup) {
  auto station = make_station(plan, setup.version, false, setup.look);
  if (!station.ok()) return std::move(station).status();
  const auto descriptor_limit = std::move(station->descriptor_limit);
  LocalAgent local = std::move(station->local);
  std::unique_ptr<Doctor> made(new Doctor(options, plan, setup, *std::move(station)));
  RONDEL_TRY(made->prepare(std::move(local), descriptor_limit));
  return made;
}

Status Doctor::prepare(LocalAgent local, const Result<rlimit>& descriptor_limit) {
  findings_.version = setup_.version;
  findings_.ranks = plan_.size();
  findings_.net = plan_.net;
  findings_.ports = plan_.ports;
  findings_.transport = plan_.transport;
  findings_.notes = notes_of(options_, plan_);
  const auto add_own = [this](const Status& status) {
    findings_.own_problems.push_back({"this host: " + status.failure().cause, status.failure().hint});
  };
  for (const auto& one : fleet_.links()) {
    HostFindings found;
    found.label = one->setup().label;
    const auto& ranks = one->setup().ranks;
    found.ranks = static_cast<Rank>(ranks.size());
    if (!ranks.empty()) {
      found.first_rank = std::ranges::min(ranks, {}, &RankPlace::rank).rank;
      found.last_rank = std::ranges::max(ranks, {}, &RankPlace::rank).rank;
    }
    found.is_launchers = one->setup().local;
    if (!found.is_launchers) found.by_hand = login_by_hand(one->setup().host, options_.ssh);
    findings_.hosts.push_back(std::move(found));
  }
  patients_.resize(findings_.hosts.size());
  if (plan_.leaves_this_host()) {
    if (plan_.encrypt)
      add_own(
          Status(Code::unsupported,
                 "RONDEL_ENCRYPT=1 asks for encrypted links between hosts, which this version can not make",
                 "unset it"));
    auto store = start_job_store(plan_, secret_);
    if (store.ok())
      store_ = *std::move(store);
    else
      add_own(store.status());
  }
  RONDEL_TRY(loop_.watch(signals_.fd(), EPOLLIN, [this] { take_signals(); }));
  rlimit limit{};
  if (descriptor_limit.ok()) {
    limit = *descriptor_limit;
  } else {
    add_own(descriptor_limit.status());
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return system_failure(Code::internal, "getrlimit", errno);
  }
  fleet_.start(std::move(local), login_request(signals_, limit));
  return {};
}

int Doctor::run() {
  while (stage_ != Stage::done) {
    const auto now = Clock::now();
    const auto next =
        std::clamp<std::chrono::nanoseconds>(fleet_.next_look() - now, milliseconds(1), kLongestWait);
    const Status waited = loop_.wait(next);
    if (!waited.ok()) {
      say(waited.text());
      break;
    }
    fleet_.look(Clock::now());
    advance(Clock::now());
  }
  return report();
}

std::size_t Doctor::index_of(const HostLink& link) const {
  const auto links = fleet_.links();
  return static_cast<std::size_t>(
      std::find_if(links.begin(), links.end(), [&link](const auto& one) { return one.get() == &link; }) -
      links.begin());
}

void Doctor::heard(HostLink& link, agent::FromAgent& message) {
  std::visit([this, &link](const auto& one) { take(link, one); }, message);
}

void Doctor::take(HostLink& link, const agent::Hello& hello) {
  HostFindings& found = host(link);
  found.own_name = hello.host;
  found.machine = hello.machine;
  tell_progress(fmt::format("host {} calls itself {}", found.label, hello.host));
  agent::Examine order;
  order.host = static_cast<std::uint32_t>(index_of(link));
  order.secret.assign(secret_.bytes().begin(), secret_.bytes().end());
  order.net = plan_.net;
  order.ports = plan_.ports;
  order.ranks = static_cast<std::uint32_t>(found.ranks);
  order.binding = options_.binding;
  order.silence = link.setup().local ? milliseconds(0) : plan_.silence + kAfterSilence;
  patient(link).due = Clock::now() + kFactsTime;
  link.give(order);
  ask_clock(link);
}

void Doctor::ask_clock(HostLink& link) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  link.send(agent::ClockAsk{patient(link).clock.ask(
      Clock::now(), std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count())});
}

void Doctor::take(HostLink& link, const agent::ClockTell& tell) {
  ClockProbe& clock = patient(link).clock;
  if (!clock.tell(tell.number, tell.nanoseconds, Clock::now())) return;
  host(link).clock = clock.estimate();
  if (!clock.done()) ask_clock(link);
}

void Doctor::take(HostLink& link, const agent::Examined& examined) {
  auto facts = facts_from(examined.facts);
  if (!facts.ok()) return link.lose(facts.status().text());
  host(link).facts = *std::move(facts);
}

void Doctor::take(HostLink& link, const agent::StartFailed& failed) { link.lose(failed.why); }

void Doctor::take(HostLink& link, const agent::Done&) {
  if (stage_ != Stage::leaving) host(link).lost = "its agent left before it was told to";
}

void Doctor::take(HostLink& link, const agent::Reached& reached) {
  if (stage_ != Stage::reaching) return;
  HostFindings& found = host(link);
  found.attempts = reached.attempts;
  for (agent::Attempt& one : found.attempts) one.why_not.resize(std::min(one.why_not.size(), kMostWords));
  patient(link).answered = true;
}

void Doctor::take(HostLink& link, const agent::Measured& measured) {
  if (stage_ != Stage::measuring || !pair_is_open_) return;
  const auto& [from, to] = schedule_.pairs[next_pair_];
  if (index_of(link) != from || measured.host != to) return;
  findings_.measured.push_back({from, to, path_between(findings_, from, to).reached->address, measured});
  std::string& why = findings_.measured.back().result.why_not;
  why.resize(std::min(why.size(), kMostWords));
  pair_is_open_ = false;
  ++next_pair_;
}

void Doctor::lost(HostLink& link, HostLink::Stage, const std::string& why) {
  if (stage_ == Stage::leaving) return;
  host(link).lost = why;
  tell_progress(fmt::format("host {}: {}", link.setup().label, why));
}

void Doctor::delayed(HostLink& link, const std::string& why) {
  say(fmt::format("host {}: {}; trying again for {:g} s", link.setup().label, why,
                  static_cast<double>(options_.ssh.wait.count()) / 1000.0));
}

void Doctor::ssh_said(HostLink& link, const std::string& line) {
  if (options_.verbose) say(fmt::format("ssh to {}: {}", link.setup().label, line));
}

void Doctor::take_signals() {
  for (const int signal : signals_.take()) {
    if (signal == SIGTSTP) suspend();
    if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP && signal != SIGQUIT) continue;
    signal_ = signal;
  }
}

/// Ctrl-Z: hosts are not to take our silence for our end, nor we the time for theirs.
void Doctor::suspend() {
  const auto began = Clock::now();
  fleet_.tell(agent::Signal{SIGSTOP});
  fleet_.flush_within(milliseconds(500));
  ::raise(SIGSTOP);
  const auto pause = Clock::now() - began;
  measured_until_ += pause;
  for (Patient& one : patients_)
    if (one.due != Clock::time_point::max()) one.due += pause;
}

void Doctor::stop(const std::string& why, int exit_code, Clock::time_point now) {
  findings_.own_problems.push_back({why + " before the end", "run it again to see all"});
  early_exit_ = exit_code;
  leave(now);
}

bool Doctor::examined(std::size_t host) const {
  const Patient& patient = patients_[host];
  return findings_.hosts[host].facts && (patient.clock.done() || Clock::now() >= patient.due);
}

/// Gives up hosts that owe an answer.
void Doctor::drop_late(Clock::time_point now, const std::string& what) {
  for (std::size_t i = 0; i < patients_.size(); ++i)
    if (!link(i).over() && !patients_[i].answered && now >= patients_[i].due) link(i).lose(what);
}

void Doctor::advance(Clock::time_point now) {
  if (stage_ != Stage::leaving && signal_ != 0)
    stop(fmt::format("stopped by SIG{}", ::sigabbrev_np(signal_)), 128 + signal_, now);
  if (stage_ != Stage::leaving && options_.timeout && now >= start_ + *options_.timeout)
    stop("stopped by --timeout", kTimeoutExit, now);
  if (stage_ == Stage::examining) {
    for (std::size_t i = 0; i < patients_.size(); ++i) patients_[i].answered = examined(i);
    drop_late(now,
              fmt::format("it logs in, but does not say within {} s what it is like; its name resolver or "
                          "a file system may hang",
                          kFactsTime.count() / 1000));
    bool all = true;
    for (std::size_t i = 0; i < patients_.size(); ++i) all = all && (link(i).over() || patients_[i].answered);
    if (all) start_reaching(now);
  }
  if (stage_ == Stage::reaching) {
    drop_late(now, "it fell silent while it tried to reach the others");
    bool all = true;
    for (std::size_t i = 0; i < patients_.size(); ++i) all = all && (link(i).over() || patients_[i].answered);
    if (all) start_measuring(now);
  }
  if (stage_ == Stage::measuring) measure_next(now);
  if (stage_ == Stage::leaving && (fleet_.over() || now >= leave_due_)) stage_ = Stage::done;
}

void Doctor::start_reaching(Clock::time_point now) {
  stage_ = Stage::reaching;
  tell_progress("the hosts try to reach one another");
  std::vector<bool> takes_part;
  for (std::size_t i = 0; i < patients_.size(); ++i) takes_part.push_back(!link(i).over());
  for (std::size_t i = 0; i < patients_.size(); ++i) {
    if (link(i).over()) continue;
    agent::Reach order{
        .targets = targets_of(findings_, i, takes_part), .patience = kPatience, .limit = kReachTime};
    if (!store_.addresses.empty() && !link(i).setup().local)
      order.targets.push_back({.host = 0, .store = true, .addresses = store_.addresses});
    patients_[i].answered = order.targets.empty();
    patients_[i].due = now + kReachTime + kSlack;
    if (!order.targets.empty()) link(i).send(order);
  }
}

void Doctor::start_measuring(Clock::time_point now) {
  stage_ = Stage::measuring;
  const std::size_t hosts = patients_.size();
  std::vector<std::vector<bool>> reaches(hosts, std::vector<bool>(hosts));
  for (std::size_t from = 0; from < hosts; ++from)
    for (std::size_t to = 0; to < hosts; ++to)
      reaches[from][to] = from != to && !link(from).over() && !link(to).over() &&
                          path_between(findings_, from, to).reached != nullptr;
  schedule_ = make_schedule(reaches, kBudget);
  findings_.unmeasured = schedule_.left_out;
  measured_until_ = now + kBudget + kMeasureTime;
  if (!schedule_.pairs.empty())
    tell_progress(fmt::format("measuring {} pairs, one after the other", schedule_.pairs.size()));
}

void Doctor::measure_next(Clock::time_point now) {
  while (next_pair_ < schedule_.pairs.size()) {
    const auto& [from, to] = schedule_.pairs[next_pair_];
    if (pair_is_open_ && now >= patients_[from].due)
      link(from).lose("it fell silent while it measured the way to " + findings_.hosts[to].label);
    if (link(from).over() || link(to).over()) {
      ++next_pair_;
      ++findings_.unmeasured;
      pair_is_open_ = false;
      continue;
    }
    if (pair_is_open_) return;
    if (now >= measured_until_) {
      findings_.unmeasured += schedule_.pairs.size() - next_pair_;
      break;
    }
    pair_is_open_ = true;
    patients_[from].due = now + schedule_.each + kMeasureTime + kSlack;
    return link(from).send(agent::Measure{.host = static_cast<std::uint32_t>(to),
                                          .address = path_between(findings_, from, to).reached->address,
                                          .time = schedule_.each,
                                          .limit = schedule_.each + kMeasureTime});
  }
  leave(now);
}

void Doctor::leave(Clock::time_point now) {
  stage_ = Stage::leaving;
  leave_due_ = now + kLeaveTime;
  fleet_.tell(agent::Finish{});
  if (early_exit_) fleet_.drop("stopped", [](const HostLink&) { return true; });
  fleet_.drop_unordered();
}

int Doctor::report() {
  findings_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (!early_exit_) findings_.next = setup_.next;
  const auto problems = diagnose(findings_);
  const std::string text =
      options_.json ? report_json(findings_, problems) : page(findings_, problems, setup_.width);
  // A reader that does not read is not to keep us here: signals end this process from now on.
  ::pthread_sigmask(SIG_SETMASK, &signals_.original_mask(), nullptr);
  const bool written = std::fputs(text.c_str(), stdout) != EOF && std::fflush(stdout) == 0;
  if (!written) say(system_failure(Code::io_error, "writing to standard output", errno).text());
  if (early_exit_) return *early_exit_;
  const bool well = std::none_of(problems.begin(), problems.end(),
                                 [](const Problem& one) { return one.severity == Severity::error; });
  return well && written ? 0 : 1;
}

}  // namespace

int run_doctor(const Options& options, const JobPlan& plan, const DoctorSetup& setup) {
  auto made = Doctor::create(options, plan, setup);
  if (made.ok()) return (*made)->run();
  fmt::print(stderr, "rondelrun: {}\n", made.status().text());
  return kLaunchFailureExit;
}

}  // namespace rondel::doctor
