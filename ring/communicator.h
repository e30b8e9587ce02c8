// SPDX-License-Identifier: Apache-2.0
// Communicator: a group of ranks that run collectives together, in the same order on each. Runs them on the
// caller's thread; starts no thread of its own. One thread at a time per communicator, several communicators
// at once are fine; abort() and failed() may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/deadline.h"
#include "lib/liveness/member.h"
#include "lib/status.h"
#include "lib/store/store.h"
#include "ring/request.h"
#include "transports/transport.h"

namespace rondel {

/// What the communicators of one process share; outlives them through shared_ptr.
struct Job {
  std::vector<std::unique_ptr<Transport>> transports;  // in order of preference
  std::shared_ptr<Store> store;                        // null for a job of one rank
  std::unique_ptr<liveness::Member> member;            // null for a job of one rank
  std::mutex
      creating;  // communicators of several threads are created through one store and the same transports
  std::atomic_flag told_of_unreached = ATOMIC_FLAG_INIT;  // ranks that a transport promised; once is enough
};

struct CommunicatorOptions {
  Rank rank = 0;
  Rank size = 1;
  std::string name = "world";     // equal on all ranks, unique in the job; names store keys
  std::string transport;          // RONDEL_TRANSPORT; empty: the best that all ranks share
  std::string algorithm;          // RONDEL_ALGORITHM; empty: by measured cost
  std::size_t segment_bytes = 0;  // RONDEL_SEGMENT_BYTES; 0: the endpoint's preference
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};         // each operation
  std::chrono::nanoseconds start_timeout{std::chrono::seconds(60)};  // creation, first connections
};

/// One started operation. Stays valid until it is done or its communicator is destroyed.
class Operation;
using OperationId = std::uint64_t;

class Communicator {
 public:
  /// Collective over all ranks of the job's store that use the same `name`. Exchanges addresses and host
  /// identities, picks the transport, checks that versions and settings agree, measures latency and bandwidth
  /// for `tuning`.
  static Result<std::unique_ptr<Communicator>> create(std::shared_ptr<Job> job, CommunicatorOptions options);
  /// The same for a start that has begun before: ends at `deadline`, or about a second later.
  static Result<std::unique_ptr<Communicator>> create(std::shared_ptr<Job> job, CommunicatorOptions options,
                                                      Deadline deadline);
  ~Communicator();  // leaves: peers that still need this rank get peer_left
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Rank rank() const;
  Rank size() const;
  std::string_view transport_name() const;
  const std::string& host_of(Rank rank) const;

  /// Runs the operation to its end on this thread. After a failure the communicator is poisoned and every
  /// later call returns that same failure (invalid_argument and unsupported excepted: those start nothing and
  /// poison nothing).
  Status run(const CollectiveRequest& request);

  /// Starts an operation; collectives of one communicator run one after another in the order of their starts,
  /// sends and receives run beside them. Never waits for peers.
  Result<OperationId> start(const CollectiveRequest& request);
  /// Moves everything that was started; waits up to `may_block_for` when nothing moves.
  Status progress(std::chrono::nanoseconds may_block_for);
  /// Done or failed. Does not progress.
  bool done(OperationId operation) const;
  /// Waits for one operation until it ends, its timeout or `deadline`; then forgets it. timed_out by
  /// `deadline` alone leaves the operation running.
  Status wait(OperationId operation, Deadline deadline);
  /// A descriptor that turns readable when progress() may have something to do; armed anew by each call.
  Result<int> wait_descriptor(bool ready = false);

  /// Any thread, returns within a second: all operations of this communicator end with `aborted` on every
  /// rank.
  void abort(std::string_view why);
  /// The failure that poisoned this communicator; ok() while healthy. Any thread.
  Status failure() const;

  /// Collective. Ranks with equal colour form a new communicator, ordered by (key, rank); colour < 0: none
  /// (null).
  Result<std::unique_ptr<Communicator>> split(std::int32_t colour, std::int32_t key);
  Result<std::unique_ptr<Communicator>> duplicate();

  /// Prepares memory that many operations will use, once for all; the memory must stay until it is forgotten
  /// or the communicator is gone. Returns the name by which it is forgotten, once no operation uses it.
  Result<std::uint64_t> remember_memory(MemorySpan memory);
  void forget_memory(std::uint64_t name);

  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_received() const;
  /// What the transport counts of its own work, calibration included. See Endpoint::counters.
  std::vector<Counter> counters() const;

 private:
  struct Body;
  explicit Communicator(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace rondel
