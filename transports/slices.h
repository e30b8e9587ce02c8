// SPDX-License-Identifier: Apache-2.0
// Walking lists of slices: copy and fold between two lists that are cut at different places, down to an
// element whose bytes lie in several slices. For backends that move bytes with the processor. Pure functions
// on memory the caller owns; knows nothing of peers or sockets. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "transports/work.h"

namespace rondel {

/// A position in a list of slices (which must outlive it), or in one run of plain memory.
class SliceCursor {
 public:
  explicit SliceCursor(std::span<const Slice> slices) : rest_(slices) { settle(); }
  explicit SliceCursor(std::span<std::byte> memory) : run_(memory) {}

  /// The contiguous bytes from here on; empty exactly at the end.
  std::span<std::byte> run() const { return run_; }
  /// `bytes` <= run().size()
  void advance(std::size_t bytes) {
    run_ = run_.subspan(bytes);
    settle();
  }

 private:
  void settle() {
    while (run_.empty() && !rest_.empty()) {
      run_ = {rest_.front().data(), rest_.front().bytes};
      rest_ = rest_.subspan(1);
    }
  }

  std::span<const Slice> rest_;
  std::span<std::byte> run_;
};

/// Copies the next `bytes` bytes; both cursors hold at least as many and end behind them.
void copy_slices(SliceCursor& to, SliceCursor& from, std::size_t bytes);

/// to = op(other, incoming) over the next `bytes` bytes (whole elements) in the order that `reduction` asks
/// for. `to` and `other` may start at the same place of the same slices; other overlap is not allowed.
void fold_slices(const Reduction& reduction, SliceCursor& to, SliceCursor& other, SliceCursor& incoming,
                 std::size_t bytes);

}  // namespace rondel
