// SPDX-License-Identifier: Apache-2.0
// OutputSink: where the launcher's output goes: a terminal, pipe, socket or file, written without ever
// blocking the loop (regular files excepted). Owned by the log relay; one thread. It buffers; its user stops
// filling it when it is full(), so that memory stays bounded.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lib/unique_fd.h"

namespace rondel {

class OutputSink {
 public:
  static constexpr std::size_t kFullBytes = 1U << 20U;

  /// Writes to what `fd` refers to. The descriptor itself stays the caller's, with its flags as they are.
  explicit OutputSink(int fd);

  /// Append here; flush() takes from the front.
  std::string& buffer() { return buffer_; }
  /// Writes what goes without blocking.
  void flush();

  bool full() const { return pending() >= kFullBytes; }
  std::size_t pending() const { return buffer_.size() - written_; }
  /// The reader is gone, or the device failed: everything is dropped from now on.
  bool broken() const { return error_ != 0; }
  /// EPIPE, ENOSPC, ...; 0 while all is well.
  int error() const { return error_; }
  /// The descriptor to watch for room.
  int fd() const { return fd_; }
  /// False for regular files and the like, which always have room.
  bool can_wait() const { return way_ != Way::plain; }

 private:
  /// How to write so that the loop does not block.
  enum class Way {
    plain,         // regular files: a write ends in finite time
    non_blocking,  // our own non-blocking opening of the same pipe or terminal
    socket,        // MSG_DONTWAIT
    small_steps,   // cannot be reopened: poll, then no more than a pipe always has room for
  };
  long write_some(const char* bytes, std::size_t count) const;
  void compact();

  int fd_;
  UniqueFd reopened_;
  Way way_ = Way::plain;
  std::string buffer_;
  std::size_t written_ = 0;  // of buffer_
  int error_ = 0;
};

/// Whether two descriptors lead to the same pipe, terminal or file.
bool same_destination(int a, int b);

}  // namespace rondel
