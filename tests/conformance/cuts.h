// SPDX-License-Identifier: Apache-2.0
// CutBuffer: a run of bytes that lies in memory as many slices, cut at random places (down to one byte and to
// none), in random order, with gaps between them whose bytes must never change. One thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tests/conformance/world.h"
#include "tests/support/seed.h"

namespace rondel::conformance {

class CutBuffer {
 public:
  CutBuffer(Endpoint& endpoint, std::size_t bytes, test::Random& random);

  std::span<const Slice> slices() const { return slices_; }
  /// Fills the slices, one after another.
  void scatter(std::span<const std::byte> content);
  /// What the slices hold, one after another.
  Bytes gather() const;
  bool gaps_are_untouched() const;

 private:
  static constexpr std::byte kGap{0xa5};

  std::vector<std::size_t> sizes_;
  Buffer memory_;
  std::vector<Slice> slices_;
};

}  // namespace rondel::conformance
