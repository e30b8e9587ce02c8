// SPDX-License-Identifier: Apache-2.0
#include "ring/label.h"

#include <fmt/format.h>

namespace rondel {
namespace {

constexpr int kKindShift = 28, kTypeShift = 32, kOpShift = 36, kRootShift = 40, kCountedShift = 60,
              kPurposeShift = 61;
constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << kKindShift) - 1;
constexpr std::uint64_t kRootMask = (std::uint64_t{1} << 20) - 1;

std::uint64_t field(std::uint64_t word, int shift, std::uint64_t mask) { return word >> shift & mask; }

}  // namespace

std::uint64_t hash_of(std::span<const std::uint64_t> counts) {
  std::uint64_t hash =
      0xcbf29ce484222325U;  // FNV-1a over whole counts, then a mix so that all bits take part
  for (const std::uint64_t count : counts) {
    hash = (hash ^ count) * 0x100000001b3U;
    hash ^= hash >> 29;
  }
  return hash;
}

Label make_label(const CollectiveRequest& request, std::uint64_t sequence) {
  const CollectiveKind kind = request.kind;
  Label label;
  std::uint64_t& word = label.words[0];
  // A send and its recv are one operation; their sequence is counted per pair by the pairing itself.
  const bool pair = point_to_point(kind);
  word = pair ? 0 : sequence & kSequenceMask;
  word |= static_cast<std::uint64_t>(pair ? CollectiveKind::send : kind) << kKindShift;
  word |= static_cast<std::uint64_t>(request.purpose) << kPurposeShift;
  if (kind == CollectiveKind::barrier) return label;
  word |= static_cast<std::uint64_t>(request.type) << kTypeShift;
  if (reduces(kind)) word |= static_cast<std::uint64_t>(request.op) << kOpShift;
  if (has_root(kind)) word |= (static_cast<std::uint64_t>(request.root) & kRootMask) << kRootShift;
  label.words[1] = request.count;
  if (request.counts.empty()) return label;
  word |= std::uint64_t{1} << kCountedShift;
  // What ranks send to one another in an all_to_all differs by rank; pairs compare their counts themselves.
  label.words[1] = kind == CollectiveKind::all_to_all ? 0 : hash_of(request.counts);
  return label;
}

Label make_pair_label(Label operation, std::uint64_t count) {
  operation.words[1] = count;
  return operation;
}

std::string describe(const Label& label) {
  CollectiveRequest request;
  const std::uint64_t word = label.words[0];
  request.kind = static_cast<CollectiveKind>(field(word, kKindShift, 0xf));
  request.purpose = static_cast<Purpose>(field(word, kPurposeShift, 0x3));
  request.type = static_cast<DataType>(field(word, kTypeShift, 0xf));
  request.op = static_cast<ReduceOp>(field(word, kOpShift, 0xf));
  request.root = static_cast<Rank>(field(word, kRootShift, kRootMask));
  request.count = label.words[1];
  const bool known = request.kind <= CollectiveKind::recv && request.purpose <= Purpose::finalize &&
                     static_cast<std::size_t>(request.type) < kDataTypeCount &&
                     static_cast<std::size_t>(request.op) < kReduceOpCount;
  if (!known) return fmt::format("an unknown operation ({:x}:{:x})", label.words[0], label.words[1]);
  if (request.kind == CollectiveKind::send)
    return fmt::format("send and recv of {} {}", request.count, name_of(request.type));
  const std::uint64_t sequence = word & kSequenceMask;
  if (request.purpose != Purpose::itself || field(word, kCountedShift, 1) == 0)
    return describe(request, sequence);
  if (request.kind == CollectiveKind::all_to_all && request.count > 0)
    return fmt::format("{}, {} elements for this pair", describe(request, sequence), request.count);
  const std::uint64_t counts[] = {request.count};
  request.counts = counts;
  return fmt::format("{} (hash {:08x})", describe(request, sequence), request.count & 0xffffffffU);
}

std::string describe(const LabelMismatch& mismatch, Rank rank) {
  const bool mine_first = rank < mismatch.peer;
  const std::string mine = describe(mismatch.mine), theirs = describe(mismatch.theirs);
  if (mismatch.mine == mismatch.theirs)
    return fmt::format("ranks {} and {} both called {}, but {} bytes met {}: their settings differ",
                       mine_first ? rank : mismatch.peer, mine_first ? mismatch.peer : rank, mine,
                       mine_first ? mismatch.my_bytes : mismatch.their_bytes,
                       mine_first ? mismatch.their_bytes : mismatch.my_bytes);
  return fmt::format("rank {} called {}, rank {} called {}", mine_first ? rank : mismatch.peer,
                     mine_first ? mine : theirs, mine_first ? mismatch.peer : rank,
                     mine_first ? theirs : mine);
}

}  // namespace rondel
