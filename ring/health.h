// SPDX-License-Identifier: Apache-2.0
// Health: whether a communicator still works, and why not. Turns what goes wrong here (a broken link, a
// deadline, a mismatch, an abort) into the verdict that all ranks of the job share, through liveness. Owned
// by a communicator. The judge_ calls belong to the driver thread and wait for the verdict at most two
// seconds; the rest is for any thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/liveness/member.h"
#include "lib/status.h"
#include "transports/endpoint.h"

namespace rondel {

class Health {
 public:
  /// `member` may be null (a job of one rank); then the own view is the verdict.
  Health(std::shared_ptr<liveness::Watch> watch, liveness::Member* member, Rank rank,
         std::vector<std::string> hosts);

  /// What an incident means to `rank`.
  static Status verdict_of(const liveness::Incident& incident, Rank rank);

  /// Somebody failed or aborted. Cheap enough for every turn of a wait loop.
  bool alarmed() const { return watch_->raised() || abort_requested_.load(std::memory_order_acquire); }
  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  /// The failure, or the alarm that will become one; ok() while neither is there.
  Status failure() const;
  /// Tells every rank. The first call's text counts.
  void abort(std::string_view why);

  /// What an alarm means.
  Status judge_alarm() const;
  /// `status` failed on an endpoint or on this rank, in operation number `sequence`; `mismatch`: both sides
  /// of one.
  Status judge(const Status& status, const std::optional<LabelMismatch>& mismatch, std::uint64_t sequence,
               const std::string& operation);
  /// `status` kept this rank from starting. For a communicator that never came to be.
  Status judge_start(const Status& status);
  /// Keeps the failure for ever; called once.
  void poison(Status failure);
  /// Says goodbye: from now on this rank's end is no incident.
  void leave();

  liveness::Watch& watch() { return *watch_; }

 private:
  Status verdict_or(Status own, std::chrono::milliseconds patience) const;
  void report(Code code, Rank guilty, const std::string& cause, const std::string& hint);
  std::string host_of(Rank rank) const;

  const std::shared_ptr<liveness::Watch> watch_;
  liveness::Member* const member_;
  const Rank rank_;
  const std::vector<std::string> hosts_;
  std::atomic_flag abort_taken_ = ATOMIC_FLAG_INIT;
  std::string abort_text_;                    // written before abort_requested_
  std::atomic<bool> abort_requested_{false};  // release in abort() pairs with the acquire in alarmed()
  Status failure_;                            // written before poisoned_
  std::atomic<bool> poisoned_{false};         // release in poison() pairs with the acquire in poisoned()
};

}  // namespace rondel
