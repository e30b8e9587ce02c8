// SPDX-License-Identifier: Apache-2.0
// Monitor: decides, for a whole job, who is to blame. The server's side of liveness as a pure state machine:
// what members say and when goes in, what members must be told comes out. No sockets, no clock of its own,
// one thread.
//
// Members register each communicator (context) they are in, beat once a second with how far each has come,
// and report trouble. The first incident of a context is final and goes to every rank of it.
//  - connection lost without a goodbye: incident "rank r (host h) died" in each context it had not left, at
//    once
//  - report (mismatch, abort, own failure): becomes the incident as it stands
//  - suspect (a link to `peer` broke): peer dead -> its death; peer left -> peer_left; else, after
//    kVerdictGrace, the broken link itself; when `peer` has suspected somebody in turn, the link that it
//    reported
//  - overdue (a deadline passed while waiting for `peer` in operation `sequence`, counted from 1; 0 is a send
//    or recv): polls all ranks of the context; after kPollGrace blames, in this order: a rank that does not
//    answer; one that never joined; one that left before that operation; the rank that has not entered it
//    (smallest sequence, smallest rank); else the reporter's peer
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/deadline.h"
#include "lib/liveness/incident.h"

namespace rondel::liveness {

using MemberId = std::uint64_t;  // the server's name for one connection
using TimePoint = Deadline::Clock::time_point;

struct Progress {
  Context context = 0;
  std::uint64_t entered = 0;  ///< operations this rank has started on that communicator
};

struct Instruction {
  enum class Kind : std::uint8_t { incident, poll };
  MemberId to = 0;
  Kind kind = Kind::poll;
  Incident incident;  // for Kind::incident
};

class Monitor {
 public:
  static constexpr std::chrono::milliseconds kVerdictGrace{300};
  static constexpr std::chrono::milliseconds kPollGrace{700};

  Monitor();
  ~Monitor();
  using Instructions = std::vector<Instruction>;

  Instructions joined(MemberId member, Context context, Rank rank, Rank size, std::string host);
  Instructions left(MemberId member, Context context);
  Instructions beat(MemberId member, const std::vector<Progress>& progress, TimePoint now);
  Instructions report(MemberId member, Incident incident);
  Instructions suspect(MemberId member, Context context, Rank peer, std::string evidence, TimePoint now);
  Instructions overdue(MemberId member, Context context, Rank peer, std::uint64_t sequence,
                       std::string operation, TimePoint now);
  /// All communicators of this member are done with; its disconnection is no death.
  Instructions goodbye(MemberId member);
  /// `why` is the system's word when it was more than an end of file: "Connection timed out".
  Instructions disconnected(MemberId member, const std::string& why = {});
  /// Verdicts whose grace has passed.
  Instructions tick(TimePoint now);
  /// When tick() has something to do next; TimePoint::max() when nothing is pending.
  TimePoint next_tick() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rondel::liveness
