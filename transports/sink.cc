// SPDX-License-Identifier: Apache-2.0
#include "transports/sink.h"

#include <cstring>

namespace rondel {
namespace {

// The cursors read only through their bytes' addresses; the incoming side is never written.
SliceCursor cursor_over(std::span<const std::byte> bytes) {
  return SliceCursor(std::span(const_cast<std::byte*>(bytes.data()), bytes.size()));
}

}  // namespace

void Sink::reset(const Work& work) {
  folds_ = work.verb == Verb::recv_reduce;
  local_slices_.assign(work.local.begin(), work.local.end());
  local_ = SliceCursor(std::span<const Slice>(local_slices_));
  if (folds_) {
    const auto other = work.other.empty() ? work.local : work.other;
    other_slices_.assign(other.begin(), other.end());
    other_ = SliceCursor(std::span<const Slice>(other_slices_));
  }
  reduction_ = work.reduction;
  label_ = work.label;
  done_ = work.done;
  total_bytes_ = rondel::total_bytes(work.local);
  missing_bytes_ = total_bytes_;
  element_bytes_ = folds_ ? size_of(work.reduction.type) : 1;
  carry_bytes_ = 0;
}

void Sink::take(std::span<const std::byte> bytes) {
  missing_bytes_ -= bytes.size();
  if (!folds_) {
    SliceCursor incoming = cursor_over(bytes);
    return copy_slices(local_, incoming, bytes.size());
  }
  bytes = bytes.subspan(complete_carry(bytes));
  const std::size_t whole = bytes.size() - bytes.size() % element_bytes_;
  fold_whole_elements(bytes.first(whole));
  const auto rest = bytes.subspan(whole);
  if (rest.empty()) return;
  std::memcpy(carry_.data(), rest.data(), rest.size());
  carry_bytes_ = rest.size();
}

// Finishes the element whose first part came earlier; returns how many bytes that took.
std::size_t Sink::complete_carry(std::span<const std::byte> bytes) {
  if (carry_bytes_ == 0) return 0;
  const std::size_t taken = std::min(element_bytes_ - carry_bytes_, bytes.size());
  std::memcpy(carry_.data() + carry_bytes_, bytes.data(), taken);
  carry_bytes_ += taken;
  if (carry_bytes_ == element_bytes_) {
    fold_whole_elements(std::span<const std::byte>(carry_).first(element_bytes_));
    carry_bytes_ = 0;
  }
  return taken;
}

void Sink::fold_whole_elements(std::span<const std::byte> bytes) {
  SliceCursor incoming = cursor_over(bytes);
  fold_slices(reduction_, local_, other_, incoming, bytes.size());
}

}  // namespace rondel
