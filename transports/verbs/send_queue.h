// SPDX-License-Identifier: Apache-2.0
// SendQueue: the sending half of a queue pair. Collects requests, posts them as one list (one doorbell), and
// asks for a completion only for the last of a list that somebody waits for, and for one in kSignalEvery
// where nobody does. Counts which requests are done. Owned by the link; driver thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transports/verbs/library.h"
#include "transports/verbs/queue_pair.h"

namespace rondel::verbs {

class SendQueue {
 public:
  /// `mark` is in the upper half of each request's number (ibv_wc::wr_id), `index`, of the link's pairs, in
  /// the highest bits of the lower one. `pair` is destroyed later.
  SendQueue(const VerbsLibrary& verbs, const QueuePair& pair, std::uint32_t mark, std::uint32_t index = 0);
  static std::uint32_t index_of(std::uint64_t request) {
    return static_cast<std::uint32_t>(request) >> kNumberBits;
  }

  /// How many more requests fit before some are done.
  std::size_t room() const { return depth_.sends - static_cast<std::size_t>(posted_ - completed_); }
  std::size_t depth() const { return depth_.sends; }
  std::size_t most_slices() const { return depth_.slices; }
  /// Requests taken so far; the number of the last one.
  std::uint64_t posted() const { return posted_; }
  /// The first so many are done.
  std::uint64_t completed() const { return completed_; }

  /// A message to one of the peer's receives. It must stay as it is until it is done.
  void message(const ibv_sge& from);
  /// A write to the peer's memory; with an immediate it also takes one of the peer's receives. `awaited`:
  /// somebody waits for it to be done.
  void write(std::span<const ibv_sge> from, std::uint64_t to, std::uint32_t key,
             std::optional<std::uint32_t> immediate, bool awaited);
  /// Posts what was collected.
  void flush();
  std::uint64_t signalled() const { return signalled_; }
  std::uint64_t doorbells() const { return doorbells_; }
  /// errno of the first post that failed; 0: none.
  int error() const { return error_; }

  /// A completion with this number has come: all requests up to it are done.
  void take_completion(std::uint64_t number);

 private:
  static constexpr int kNumberBits = 29;
  static constexpr std::uint32_t kNumberMask = (1U << kNumberBits) - 1;
  static_assert(kMostPairs <= 1U << (32 - kNumberBits));
  static constexpr std::size_t kListLength = 32;
  static constexpr std::size_t kSlicePool = 128;

  ibv_send_wr& add(std::span<const ibv_sge> from);

  const VerbsLibrary& verbs_;
  ibv_qp* const pair_;
  const PairDepth depth_;
  const std::uint64_t mark_;
  std::array<ibv_send_wr, kListLength> list_;
  std::array<ibv_sge, kSlicePool> slices_;
  std::size_t listed_ = 0;
  std::size_t slices_used_ = 0;
  std::optional<std::size_t> awaited_;  // the last request of the list that is waited for
  std::uint32_t unsignalled_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t signalled_ = 0;
  std::uint64_t doorbells_ = 0;
  int error_ = 0;
};

}  // namespace rondel::verbs
