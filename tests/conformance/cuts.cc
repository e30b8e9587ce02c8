// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/cuts.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace rondel::conformance {

namespace {

constexpr std::size_t kGapBytes = 9;

// The lengths of the slices: half of the cuts are a few bytes wide.
std::vector<std::size_t> cut(std::size_t bytes, std::uint32_t max_slices, test::Random& random) {
  const std::size_t pieces = 1 + random.below(std::min<std::uint64_t>(max_slices, 12));
  std::vector<std::size_t> sizes;
  for (std::size_t left = bytes; sizes.size() + 1 < pieces; left -= sizes.back())
    sizes.push_back(random.below(1 + std::min<std::uint64_t>(left, random.happens(0.5) ? 9 : left)));
  sizes.push_back(bytes - std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
  return sizes;
}

}  // namespace

CutBuffer::CutBuffer(Endpoint& endpoint, std::size_t bytes, test::Random& random)
    : sizes_(cut(bytes, endpoint.capabilities().max_slices, random)),
      memory_(endpoint, bytes + (sizes_.size() + 1) * kGapBytes, kGap) {
  std::vector<std::size_t> order(sizes_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  slices_.resize(sizes_.size());
  std::size_t offset = kGapBytes;
  for (const std::size_t index : order) {
    slices_[index] = memory_.part(offset, sizes_[index]);
    offset += sizes_[index] + kGapBytes;
  }
}

void CutBuffer::scatter(std::span<const std::byte> content) {
  for (const Slice& slice : slices_) {
    if (slice.bytes > 0) std::memcpy(slice.data(), content.data(), slice.bytes);
    content = content.subspan(slice.bytes);
  }
}

Bytes CutBuffer::gather() const {
  Bytes content;
  for (const Slice& slice : slices_) content.insert(content.end(), slice.data(), slice.data() + slice.bytes);
  return content;
}

bool CutBuffer::gaps_are_untouched() const {
  Bytes rest = memory_.bytes();
  for (const Slice& slice : slices_)
    std::fill_n(rest.begin() + static_cast<std::ptrdiff_t>(slice.offset), slice.bytes, kGap);
  return std::all_of(rest.begin(), rest.end(), [](std::byte byte) { return byte == kGap; });
}

}  // namespace rondel::conformance
