// SPDX-License-Identifier: Apache-2.0
// Owners for what rondel.h hands out (communicator, buffers), and its failures as Status. Confined to one
// thread.
#pragma once

#include <rondel.h>

#include <cstddef>
#include <memory>

#include "bench/measurement.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel::bench {

/// The failure behind `code`, in the library's own words. `comm` may be null for calls without one.
Status status_of(rondel_status_t code, rondel_comm_t comm);

class Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> from_environment();
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Leaves together with the other ranks. Nothing else may be called afterwards.
  Status finalize();

  rondel_comm_t handle() const { return comm_; }
  Rank rank() const { return rondel_rank(comm_); }
  Rank size() const { return rondel_size(comm_); }

  /// Of this rank, since the communicator was made: payload bytes sent, and what the transport counts.
  Result<Effort> effort() const;

  /// Replaces each value by the largest of all ranks.
  Status largest(double* values, std::size_t count);
  /// Replaces `value` by the sum over all ranks.
  Status sum(std::int64_t& value);

 private:
  explicit Communicator(rondel_comm_t comm) : comm_(comm) {}
  rondel_comm_t comm_;
};

/// Memory of rondel_alloc, or of malloc ("plain", pages touched).
class Buffer {
 public:
  static Result<Buffer> allocate(std::size_t bytes, bool plain);
  std::byte* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    bool plain;
    void operator()(std::byte* memory) const;
  };
  Buffer(std::byte* memory, std::size_t bytes, bool plain) : memory_(memory, Free{plain}), bytes_(bytes) {}
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t bytes_;
};

}  // namespace rondel::bench
