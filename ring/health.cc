// SPDX-License-Identifier: Apache-2.0
#include "ring/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ring/label.h"

namespace rondel {
namespace {

constexpr std::chrono::milliseconds kVerdictPatience{1500};
constexpr std::chrono::milliseconds kStartPatience{500};  // a start that failed has taken its time already
constexpr std::chrono::milliseconds kPollPatience{2000};
constexpr std::chrono::milliseconds kPollBegins{
    800};  // the server asks all ranks at once when one is overdue

}  // namespace

Health::Health(std::shared_ptr<liveness::Watch> watch, liveness::Member* member, Rank rank,
               std::vector<std::string> hosts)
    : watch_(std::move(watch)), member_(member), rank_(rank), hosts_(std::move(hosts)) {}

std::string Health::host_of(Rank rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < hosts_.size() ? hosts_[index] : std::string();
}

Status Health::verdict_of(const liveness::Incident& incident, Rank rank) {
  Failure failure;
  failure.cause = incident.cause;
  failure.hint = incident.hint;
  failure.host = incident.host;
  failure.peer = incident.guilty;
  failure.rank = rank;
  return Status(incident.code, std::move(failure));
}

Status Health::failure() const {
  if (poisoned()) return failure_;
  return alarmed() ? judge_alarm() : Status();
}

void Health::abort(std::string_view why) {
  if (abort_taken_.test_and_set(std::memory_order_acq_rel)) return;
  abort_text_ = fmt::format("rank {} aborted{}{}", rank_, why.empty() ? "" : ": ", why);
  std::replace_if(  // texts are one line
      abort_text_.begin(), abort_text_.end(), [](unsigned char c) { return c < ' '; }, ' ');
  abort_requested_.store(true, std::memory_order_release);
  report(Code::aborted, rank_, abort_text_, {});
}

void Health::report(Code code, Rank guilty, const std::string& cause, const std::string& hint) {
  if (member_ == nullptr) return;
  liveness::Incident incident;
  incident.context = watch_->context();
  incident.code = code;
  incident.guilty = guilty;
  incident.host = host_of(guilty);
  incident.cause = cause;
  incident.hint = hint;
  member_->report(std::move(incident));
}

Status Health::judge_alarm() const {
  if (watch_->raised()) {
    liveness::Incident incident = watch_->incident();
    if (incident.host.empty()) incident.host = host_of(incident.guilty);
    return verdict_of(incident, rank_);
  }
  Failure failure;
  failure.cause = abort_text_;
  failure.peer = failure.rank = rank_;
  failure.host = host_of(rank_);
  return Status(Code::aborted, std::move(failure));
}

Status Health::verdict_or(Status own, std::chrono::milliseconds patience) const {
  if (member_ != nullptr && liveness::Member::await(*watch_, Deadline::in(patience))) return judge_alarm();
  return own;
}

Status Health::judge(const Status& status, const std::optional<LabelMismatch>& mismatch,
                     std::uint64_t sequence, const std::string& operation) {
  if (alarmed()) return judge_alarm();
  Failure failure = status.failure();
  failure.rank = rank_;
  if (failure.host.empty()) failure.host = host_of(failure.peer);
  if (status.code() == Code::peer_lost) {
    if (member_ != nullptr) member_->suspect(watch_->context(), failure.peer, failure.cause);
    return verdict_or(Status(status.code(), std::move(failure)), kVerdictPatience);
  }
  if (status.code() == Code::timed_out) {
    if (member_ == nullptr) return Status(status.code(), std::move(failure));
    // Another rank may have been overdue just before this one, and all have been asked then.
    const auto asked = Deadline::Clock::now() - kPollBegins;
    member_->overdue(watch_->context(), failure.peer, sequence, operation);
    if (liveness::Member::await(*watch_, Deadline::in(kPollBegins))) return judge_alarm();
    // A server that stands still gives no verdict.
    Status own(status.code(), std::move(failure));
    return member_->heard_since(asked) ? verdict_or(std::move(own), kPollPatience - kPollBegins) : own;
  }
  if (status.code() == Code::mismatch && mismatch) {
    failure.cause = describe(*mismatch, rank_);
    failure.hint = "all ranks must call the same operations with the same arguments in the same order";
    failure.peer = kNoRank;
    failure.host.clear();
    report(status.code(), kNoRank, failure.cause, failure.hint);
  } else {
    report(status.code(), rank_, fmt::format("rank {}: {}", rank_, failure.cause), failure.hint);
  }
  return verdict_or(Status(status.code(), std::move(failure)), kVerdictPatience);
}

Status Health::judge_start(const Status& status) {
  if (alarmed()) return judge_alarm();
  Failure failure = status.failure();
  failure.rank = rank_;
  if (status.code() == Code::peer_lost && member_ != nullptr)
    member_->suspect(watch_->context(), failure.peer, failure.cause);
  else
    report(status.code(), failure.peer, failure.cause, failure.hint);
  return verdict_or(Status(status.code(), std::move(failure)), kStartPatience);
}

void Health::leave() {
  if (member_ != nullptr) member_->leave(watch_);
}

void Health::poison(Status failure) {
  failure_ = std::move(failure);
  poisoned_.store(true, std::memory_order_release);
}

}  // namespace rondel
