// SPDX-License-Identifier: Apache-2.0
// Member: one process's side of liveness. Owns a thread that keeps the connection to the job's server, beats
// once a second, and receives incidents, so that a rank is known to live while its driver computes. Public
// calls: any thread, never block longer than their deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "lib/liveness/incident.h"
#include "lib/store/socket.h"

namespace rondel::liveness {

/// What a communicator shares with the member's thread; the communicator owns it through a shared_ptr.
class Watch {
 public:
  explicit Watch(Context context) : context_(context) {}
  Context context() const { return context_; }

  /// Driver thread, at the start of each operation. Pairs with the relaxed load in the beat; nobody
  /// else writes.
  void enter() { entered_.store(entered() + 1, std::memory_order_relaxed); }
  std::uint64_t entered() const { return entered_.load(std::memory_order_relaxed); }

  /// True once the job has agreed that this communicator failed. Cheap enough for every turn of a wait loop.
  /// Acquire pairs with the release in raise(): the incident is readable when this is true.
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  /// The incident; only when raised().
  const Incident& incident() const { return incident_; }
  /// Called once, by the member's thread (or by a test).
  void raise(Incident incident) {
    incident_ = std::move(incident);
    raised_.store(true, std::memory_order_release);
  }

 private:
  const Context context_;
  std::atomic<std::uint64_t> entered_{0};
  std::atomic<bool> raised_{false};
  Incident incident_;
};

class Member {
 public:
  /// Connects to the job server at `address` ("host:port", "[v6]:port") and authenticates, within `deadline`.
  /// A server whose host says nothing for `silence` (RONDEL_SILENCE_TIMEOUT_S) is lost.
  static Result<std::unique_ptr<Member>> connect(const std::string& address, const Secret& secret,
                                                 Deadline deadline,
                                                 std::chrono::milliseconds silence = store::kUsualSilence);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Registers rank `rank` of `size` of a communicator. Returns the watch that incidents will be raised on.
  /// When the server is lost, every watch is raised with peer_lost naming the server.
  std::shared_ptr<Watch> join(Context context, Rank rank, Rank size, const std::string& host);
  /// Says goodbye for one communicator: its death is no incident from now on.
  void leave(const std::shared_ptr<Watch>& watch);

  /// This rank failed for a reason of its own or found a mismatch: tell everybody.
  void report(Incident incident);
  /// The link to `peer` broke; the verdict arrives on the watch, within a second while the server lives.
  void suspect(Context context, Rank peer, std::string evidence);
  /// A deadline passed while waiting for `peer` in operation number `sequence`.
  void overdue(Context context, Rank peer, std::uint64_t sequence, std::string operation);

  /// The server has said something since then. It does so at once to every rank when one of them is overdue.
  bool heard_since(Deadline::Clock::time_point when) const;
  /// Waits until `watch` is raised or the deadline passes; true when raised.
  static bool await(const Watch& watch, Deadline deadline);

 private:
  Member();
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace rondel::liveness
