// SPDX-License-Identifier: Apache-2.0
// Sink: where the incoming bytes of one recv or recv_reduce go. Copies or folds them into the work's slices
// in whatever pieces they arrive; keeps the part of an element that has not arrived whole. Driver thread
// only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transports/slices.h"
#include "transports/work.h"

namespace rondel {

/// Moves a cursor over as many runs as `bytes` take.
inline void advance(SliceCursor& cursor, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t run = std::min(bytes, cursor.run().size());
    cursor.advance(run);
    bytes -= run;
  }
}

class Sink {
 public:
  void reset(const Work& work);

  bool folds() const { return folds_; }
  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t missing_bytes() const { return missing_bytes_; }
  bool complete() const { return missing_bytes_ == 0; }
  Completion* completion() const { return done_; }
  const Label& label() const { return label_; }

  /// Takes bytes from somewhere else: copies or folds them. At most missing_bytes().
  void take(std::span<const std::byte> bytes);

  /// For a plain recv: the destination, to read into directly, and word that bytes were read there.
  const SliceCursor& destination() const { return local_; }
  void arrived_in_place(std::size_t bytes) {
    advance(local_, bytes);
    missing_bytes_ -= bytes;
  }

 private:
  std::size_t complete_carry(std::span<const std::byte> bytes);
  void fold_whole_elements(std::span<const std::byte> bytes);

  std::vector<Slice> local_slices_;  // their room is kept for the next work
  std::vector<Slice> other_slices_;
  SliceCursor local_{std::span<const Slice>()};
  SliceCursor other_{std::span<const Slice>()};
  Reduction reduction_;
  Label label_;
  Completion* done_ = nullptr;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t missing_bytes_ = 0;
  std::size_t element_bytes_ = 1;
  std::array<std::byte, 8> carry_{};
  std::size_t carry_bytes_ = 0;
  bool folds_ = false;
};

}  // namespace rondel
