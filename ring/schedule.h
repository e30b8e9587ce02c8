// SPDX-License-Identifier: Apache-2.0
// Schedule: what one rank has to send, receive, fold and copy to play its part in one collective, as data.
// Pure: made from a Shape alone, knows no buffers and no peers' state. Owned by whoever caches it; immutable,
// any thread.
//
// A schedule is a list of steps. A step is a batch of moves that progress together, and local work that runs
// when all of them are done ("the step retires"). Steps retire in order; step k may be posted once `after`
// steps have retired.
//
// Checked before written: ranks that call different operations must all fail before any output is touched. So
// a move into `output` is posted only when the rank, the message's label included, has heard from every rank,
// directly or through others. Schedules for which this does not come by itself start with an agreement:
// ceil(log2 size) rounds of 8-byte tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/types.h"
#include "ring/request.h"
#include "transports/work.h"

namespace rondel {

enum class Algorithm : std::uint8_t {
  ring,  ///< reduce-scatter and all-gather by neighbours, segmented; broadcast and reduce: a pipelined chain
  circulant,           ///< Traeff 2024: ceil(log2 size) rounds a phase at the ring's volume, any size
  one_shot,            ///< everybody sends to everybody, every rank folds for itself
  recursive_doubling,  ///< ceil(log2 size) exchanges of the whole vector; left-over ranks fold in first and
                       ///< out last
  tree,                ///< binomial, for the rooted collectives
  linear,              ///< the root (or all pairs, one by one) exchanges with each rank directly
  hierarchical         ///< inside each host, between hosts, inside again; each rank drives a slice
};
inline constexpr std::size_t kAlgorithmCount = 7;
std::string_view name_of(Algorithm algorithm);

enum class Averaging : std::uint8_t {
  none,
  divide,    ///< fold as a sum, the owner divides before it hands the result on
  weighted,  ///< 16-bit floats: each fold is a mean weighted by the contributions on both sides
};

struct Shape {
  CollectiveKind kind = CollectiveKind::barrier;
  Algorithm algorithm = Algorithm::ring;
  Rank rank = 0;
  Rank size = 1;
  Rank root = 0;  // also the peer of send and recv
  bool in_place = false;
  bool fold_pairwise =
      false;  // one_shot: in recursive doubling's order, else in rank order with one rounding
  Averaging averaging = Averaging::none;
  std::uint32_t element_bytes = 4;
  std::uint64_t count = 0;                    // as in CollectiveRequest
  std::vector<std::uint64_t> counts;          // empty: every rank has `count`
  std::vector<std::uint64_t> receive_counts;  // all_to_all with counts
  std::vector<Rank> order;                    // round the ring or along the chain; empty: by number
  std::vector<std::uint32_t> places;  // by rank: the lowest rank of its host; empty: nobody shares one
  // limits, equal on all ranks
  std::uint64_t segment_bytes = 512 * 1024;
  std::uint32_t window = 4;
  std::uint32_t max_in_flight = 16;
  std::uint32_t max_slices = 64;
  std::uint64_t scratch_limit_bytes = 4 * 1024 * 1024;

  bool operator==(const Shape&) const = default;
};

enum class Place : std::uint8_t { input, output, scratch };

struct Extent {
  Place place = Place::input;
  std::uint64_t offset = 0;  // bytes
  std::uint64_t bytes = 0;
};

/// A run of entries in Schedule::extents.
struct Run {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct Move {
  Verb verb = Verb::send;
  bool incoming_first = false;
  bool pair_token =
      false;  ///< labelled with what this pair exchanges (all_to_all with counts), not the operation
  float incoming_share = 0.5F;
  Rank peer = kNoRank;
  Run local;
  Run other;  ///< recv_reduce: the first operand; always given
};

struct LocalWork {
  enum class Kind : std::uint8_t { copy, fold, fold_many, divide };
  Kind kind = Kind::copy;
  Extent destination;
  Run sources;  ///< copy: one; fold: two; fold_many: one per rank, in rank order; divide: none
};

struct Step {
  std::uint32_t after = 0;  ///< steps that must have retired before this one is posted; never decreases
  Run moves;
  Run local;
};

struct Schedule {
  std::vector<Step> steps;
  std::vector<Move> moves;
  std::vector<Extent> extents;
  std::vector<LocalWork> local;
  std::vector<Rank> peers;  ///< everybody this rank exchanges with, ascending
  std::uint64_t scratch_bytes = 0;
  std::uint32_t steps_in_flight = 1;  ///< the most steps posted and not retired at any time
  std::uint32_t moves_per_step = 0;   ///< the most moves of one step
  bool agrees_first = false;          ///< begins with an agreement

  std::span<const Extent> view(Run run) const { return std::span(extents).subspan(run.first, run.count); }
};

/// Whether `shape.algorithm` can run the collective within `shape.scratch_limit_bytes`.
bool can_run(const Shape& shape);

/// The schedule of one rank. can_run() must hold; counts and root are valid.
Schedule make_schedule(const Shape& shape);

/// Rounds of tokens after which every rank has heard from every other; touches no data.
Schedule make_agreement(Rank rank, Rank size);

/// The circulant skips of `size`, from ceil(size/2) down to 1; empty for one rank.
std::vector<Rank> circulant_skips(Rank size);

}  // namespace rondel
