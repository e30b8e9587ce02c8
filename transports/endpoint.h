// SPDX-License-Identifier: Apache-2.0
// Endpoint: one rank's attachment to one fabric; the whole of what a backend must offer. The rules are in
// docs/transport-contract.md: pairing by order, batches, loan of buffers, what done means, room, failure.
// One driver thread makes every call. Owned by a communicator.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lib/deadline.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "transports/load_store.h"
#include "transports/work.h"

namespace rondel {

enum class Ordering : std::uint8_t {
  host,   ///< dependants wait for the Completion
  stream  ///< batch k+1 sees the effects of batch k without any host wait
};

struct Capabilities {
  Ordering ordering = Ordering::host;
  bool host_memory = true;
  bool cuda_memory = false;
  bool holds_memory = true;  ///< what stays registered takes nothing that other memory may come to need
  std::uint32_t max_in_flight = 16;  ///< works per peer and direction; more is a caller's bug
  std::uint32_t max_slices = 64;     ///< slices per span of a work
  std::size_t preferred_segment_bytes = 512 * 1024;
};

/// Two labels that should have been equal; see Label.
struct LabelMismatch {
  Rank peer = kNoRank;
  Label mine;
  Label theirs;
  std::uint64_t my_bytes = 0;
  std::uint64_t their_bytes = 0;
};

/// Something that a backend counts of its own work, since the endpoint was opened.
struct Counter {
  const char* name;  ///< a literal
  std::uint64_t value = 0;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual const Capabilities& capabilities() const = 0;
  /// Opaque bytes by which peers can reach this endpoint; exchanged through the Store.
  virtual Bytes address() const = 0;
  /// Connects to `neighbours` (ranks), each of which calls connect with this rank among its own neighbours
  /// before `deadline`. `by_rank` holds every rank's address(). May be called again with further neighbours;
  /// those that are connected already are skipped. timed_out or peer_lost name the first missing rank and
  /// why.
  virtual Status connect(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                         Deadline deadline) = 0;
  virtual Result<std::unique_ptr<Registration>> register_memory(MemorySpan memory) = 0;
  /// Starts every work of the batch; they are independent and progress together. Never blocks, never calls
  /// back. Spans and slices are copied; memory, registrations and completions are on loan until the work
  /// finishes. A failure means that nothing was posted: the endpoint is poisoned, or the batch breaks a
  /// limit.
  virtual Status post(std::span<const Work> batch, StreamRef stream) = 0;
  /// What post() would answer to this batch now, without posting it: for who hands the parts of a batch to
  /// several endpoints.
  virtual Status can_post(std::span<const Work> batch) = 0;
  /// Moves what can be moved and finishes what is done, the only place where completions finish. When nothing
  /// can be done it waits up to `may_block_for` for the fabric (zero: not at all). Returns the number of
  /// works finished, or the failure that poisoned the endpoint.
  virtual Result<std::size_t> progress(std::chrono::nanoseconds may_block_for) = 0;
  /// Poisons the endpoint: every posted work finishes with `why`, and when this returns no loaned byte is
  /// touched again. Peers notice by link loss.
  virtual void abort(Code why) noexcept = 0;
  /// The failure that poisoned this endpoint; ok() while it is healthy.
  virtual const Status& failure() const = 0;
  /// Both sides' labels when failure() is a mismatch between two works.
  virtual std::optional<LabelMismatch> mismatch() const = 0;
  /// A descriptor for poll(2) that turns readable when progress() has something to do, armed anew by each
  /// call; -1 when the fabric has none. Owned by the endpoint.
  virtual int wait_descriptor() = 0;
  /// Payload bytes received since the endpoint was opened, for error texts and statistics.
  virtual std::uint64_t bytes_received() const = 0;
  virtual std::uint64_t bytes_sent() const = 0;
  /// What moving them took, in the backend's own terms: the same names in the same order at each call.
  virtual std::vector<Counter> counters() const { return {}; }
  /// Loads and stores between its ranks' memories; null where the fabric has none. Owned by the endpoint.
  virtual LoadStore* load_store() { return nullptr; }
};

}  // namespace rondel
