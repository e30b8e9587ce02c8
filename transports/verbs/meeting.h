// SPDX-License-Identifier: Apache-2.0
// Meeting: where an endpoint is reached over sockets, and from where it reaches others, while it connects.
// Accepts, dials again and again, and moves every greeting on, all without waiting; strangers cost a closed
// socket and a line in the log. Owned by the endpoint; driver thread only.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/config.h"
#include "lib/deadline.h"
#include "lib/interfaces.h"
#include "lib/private_fd.h"
#include "lib/status.h"
#include "lib/unique_fd.h"
#include "transports/reach.h"
#include "transports/verbs/handshake.h"
#include "transports/verbs/link_table.h"

namespace rondel::verbs {

struct MeetingPlace {
  std::vector<Interface> interfaces;  ///< all of this host
  std::vector<IpAddress> addresses;   ///< the only ones listened on
  std::string ports;                  ///< RONDEL_PORTS
  std::chrono::milliseconds handshake_limit{5'000};
  std::chrono::milliseconds silence{10'000};
};

class Meeting {
 public:
  /// `mine`: see Greeting.
  static Result<Meeting> open(MeetingPlace place, const LinkHello& mine, const Secret& secret);

  /// What peers need, and no more: this host's kernel and name, and the sockets.
  const Reach& reach() const { return reach_; }
  /// Dials `peer` until it is connected or refuses for good, whatever deadline the caller has: a peer that
  /// has shown its queue pair may count the link as made when this side would give it up.
  void dial(Rank peer, const Reach& reach);
  /// One turn of everything; then waits for what comes, at most so long.
  void turn(LinkTable& links, std::chrono::milliseconds at_most);
  /// Why `peer` is not connected yet, as far as it is known; empty: no reason.
  const std::string& reason(Rank peer) const { return reasons_[static_cast<std::size_t>(peer)]; }
  /// Not ok once `peer`, or this host, has refused for good: at every address, or where it has proved who it
  /// is.
  const Status& verdict(Rank peer) const { return verdicts_[static_cast<std::size_t>(peer)]; }
  /// errno when callers wait for whom this process has no descriptor; 0: none do.
  int accept_error() const { return accept_error_; }
  void forget_verdict(Rank peer) { verdicts_[static_cast<std::size_t>(peer)] = {}; }
  void close();

 private:
  struct Dial {
    Rank peer = kNoRank;
    std::vector<SocketAddress> candidates;
    std::size_t next = 0;
    std::size_t refusals = 0;  // since the first candidate
    Deadline::Clock::time_point not_before{};
  };

  Meeting(MeetingPlace place, const LinkHello& mine, const Secret& secret)
      : place_(std::move(place)),
        mine_(mine),
        secret_(secret),
        reasons_(static_cast<std::size_t>(mine.size)),
        verdicts_(static_cast<std::size_t>(mine.size)) {}
  Status listen_on(const IpAddress& ip);
  void accept_all();
  void dial_due();
  void dial_next(Dial& dial);
  bool is_greeting(Rank peer) const;
  void advance_all(LinkTable& links);
  void judge_failure(const Greeting& greeting, const Status& why);
  void tell_failure(const Greeting& greeting, const Status& why);
  void wait(std::chrono::milliseconds at_most) const;

  MeetingPlace place_;
  LinkHello mine_;
  Secret secret_;
  Reach reach_;
  std::vector<PrivateFd> listeners_;
  std::vector<Greeting> greetings_;
  std::vector<Dial> dials_;
  std::vector<std::string> reasons_;  // by rank
  std::vector<Status> verdicts_;      // by rank
  int accept_error_ = 0;              // of the last turn: no descriptor was left
  std::uint64_t strangers_ = 0;
};

}  // namespace rondel::verbs
