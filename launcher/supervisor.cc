// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rondel {
namespace {

bool runs(const Supervisor::Record& record) {
  return !record.ending && !record.never_started && !record.lost;
}

std::chrono::milliseconds since(Supervisor::Time start, Supervisor::Time now) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - start);
}

}  // namespace

Supervisor::Supervisor(Rank ranks, std::chrono::milliseconds grace, Time start)
    : records_(static_cast<std::size_t>(ranks)), grace_(grace), start_(start), running_(ranks) {}

void Supervisor::ranks_ended(std::span<const RankEnding> together, Time now,
                             std::optional<Rank> first_fallen) {
  const bool stopping = kill_at_.has_value();
  const RankEnding* first = nullptr;
  for (const RankEnding& each : together) {
    Record& record = records_[static_cast<std::size_t>(each.rank)];
    if (!runs(record)) continue;
    record.ending = each.ending;
    record.stopped = stopping;
    record.after = since(start_, now);
    --running_;
    if (each.ending.ok()) continue;
    // Of ranks that ended at the same moment, one that crashed is the cause; one that exited may have met its
    // loss.
    const bool crashed = each.ending.signal != 0;
    const bool first_crashed = first != nullptr && first->ending.signal != 0;
    if (first == nullptr || (crashed && !first_crashed) ||
        (crashed == first_crashed && each.rank < first->rank))
      first = &each;
  }
  if (first != nullptr && !stopping) {
    first_failed_ = first->rank;
    decide(first->ending.exit_code());
    stop(now);
    accused_ = first_fallen;
  }
  hear_accused(now);
}

void Supervisor::hear_accused(Time now) {
  if (!accused_ || runs(records_[static_cast<std::size_t>(*accused_)])) return;
  const Rank rank = *std::exchange(accused_, std::nullopt);
  Record& record = records_[static_cast<std::size_t>(rank)];
  if (record.lost) {
    first_failed_ = rank;
    exit_code_ = kLaunchFailureExit;
  }
  if (!record.ending) return;
  const int signal = record.ending->signal;
  const bool ours = record.stopped && (signal == SIGTERM || (signal == SIGKILL && now >= *kill_at_));
  if (record.ending->ok() || ours) return;
  record.stopped = false;
  first_failed_ = rank;
  exit_code_ = record.ending->exit_code();
}

void Supervisor::signalled(int signal, Time now) {
  decide(128 + signal);
  stop(now);
  if (asked_to_stop_) kill_at_ = std::min(*kill_at_, now);
  asked_to_stop_ = true;
}

void Supervisor::timed_out(Time now) {
  decide(kTimeoutExit);
  stop(now);
}

void Supervisor::output_failed(int error, Time now) {
  decide(error == EPIPE ? 128 + SIGPIPE : 1);
  stop(now);
}

std::vector<Supervisor::Record*> Supervisor::still_running(std::span<const Rank> ranks) {
  std::vector<Record*> found;
  for (const Rank rank : ranks) {
    Record& record = records_[static_cast<std::size_t>(rank)];
    if (runs(record)) found.push_back(&record);
  }
  return found;
}

void Supervisor::launch_failed(std::span<const Rank> ranks, Time now) {
  for (Record* record : still_running(ranks)) {
    record->never_started = true;
    record->after = since(start_, now);
    --running_;
  }
  decide(kLaunchFailureExit);
  stop(now);
}

void Supervisor::host_lost(std::span<const Rank> ranks, Time now, std::optional<Rank> first_fallen) {
  const bool stopping = kill_at_.has_value();
  const auto lost = still_running(ranks);
  for (Record* record : lost) {
    record->lost = true;
    record->stopped = stopping;
    record->after = since(start_, now);
    --running_;
  }
  if (!lost.empty() && !stopping) {
    first_failed_ = static_cast<Rank>(lost.front() - records_.data());
    decide(kLaunchFailureExit);
    stop(now);
    accused_ = first_fallen;
  }
  hear_accused(now);
}

bool Supervisor::any_runs(std::span<const Rank> ranks) const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [this](Rank rank) { return runs(records_[static_cast<std::size_t>(rank)]); });
}

void Supervisor::decide(int exit_code) {
  if (!exit_code_) exit_code_ = exit_code;
}

void Supervisor::stop(Time now) {
  if (!kill_at_) kill_at_ = now + grace_;
}

int Supervisor::signal_due(Time now) const {
  if (!kill_at_) return 0;
  return now >= *kill_at_ ? SIGKILL : SIGTERM;
}

int Supervisor::exit_code() const { return exit_code_.value_or(0); }

}  // namespace rondel
