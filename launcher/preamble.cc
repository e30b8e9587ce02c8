// SPDX-License-Identifier: Apache-2.0
#include "launcher/preamble.h"

#include <algorithm>

namespace rondel {

Result<std::optional<std::span<const std::byte>>> Preamble::feed(std::span<const std::byte> piece) {
  using Found = std::optional<std::span<const std::byte>>;
  const std::size_t before = kept_.size();
  kept_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  // It may have begun in an earlier piece.
  const std::size_t from = before - std::min(before, magic_.size() - 1);
  const std::size_t at = kept_.find(magic_, from);
  if (at != std::string::npos) {
    const std::size_t used = at + magic_.size() - before;
    kept_.resize(at);
    return Found(piece.subspan(used));
  }
  total_ += piece.size();
  const std::size_t enough = kKeptBytes + magic_.size();  // its end may be the beginning of the magic
  if (kept_.size() > enough) kept_.erase(0, kept_.size() - enough);
  if (total_ > kMostBytes + magic_.size())
    return Status(Code::refused, "more than 1 MiB was printed before it", "what do its login files print?");
  return Found();
}

}  // namespace rondel
