// SPDX-License-Identifier: Apache-2.0
// Preamble: finds where the agent begins to speak in what a login prints: banners, login files and the like
// come before it. Pure: bytes in pieces of any size in; it keeps the end of what it skipped, for error texts,
// and gives up when that goes on for too long. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/status.h"

namespace rondel {

class Preamble {
 public:
  static constexpr std::size_t kMostBytes = 1U << 20U;  ///< that may be skipped
  static constexpr std::size_t kKeptBytes = 4096;

  explicit Preamble(std::string_view magic) : magic_(magic) {}

  /// The bytes of `piece` behind the magic, once that is whole (there may be none); nothing before. refused:
  /// too much came without it. Not to be fed again after either.
  Result<std::optional<std::span<const std::byte>>> feed(std::span<const std::byte> piece);
  /// The end of what was skipped so far.
  std::string skipped() const { return kept_.substr(kept_.size() - std::min(kept_.size(), kKeptBytes)); }

 private:
  std::string_view magic_;
  std::string kept_;
  std::size_t total_ = 0;
};

}  // namespace rondel
