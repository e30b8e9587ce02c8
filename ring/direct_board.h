// SPDX-License-Identifier: Apache-2.0
// What the ranks of one machine write on their boards while they run collectives by loads and stores. Each
// field has one writer, the board's owner; numbers only rise. What is written in every operation has lines of
// its own, and what peers look at all the time but is hardly ever written has another. Two slots suffice: a
// rank can be at most one operation ahead of another, as each operation needs all to have come.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transports/load_store.h"
#include "transports/work.h"

namespace rondel {

struct DirectBoard {
  static constexpr std::size_t kTinyBytes = 2 * sizeof(LoadStore::Reference);
  static constexpr std::size_t kPayloadBytes = 4096;

  struct Memory {
    LoadStore::Reference input, output;
  };
  /// A rank's part in one operation; complete once `number` is the operation's.
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> number{0};
    Label label;
    union {
      Memory memory;
      std::byte tiny[kTinyBytes];  // a payload so small travels with the number
    };
    std::uint32_t reachable = 0;  // whether `memory` can be reached by all
    alignas(64) std::byte payload[kPayloadBytes];

    Slot() : memory{} {}
  };

  Slot slots[2];
  /// The last operation whose loads and stores this rank has made.
  alignas(64) std::atomic<std::uint64_t> done{0};
  alignas(64) std::atomic<std::uint32_t> working{0};  // it is loading and storing now; read by who gives up
  alignas(64) std::atomic<std::uint32_t> closed{0};   // it has given up: its memory is no longer on loan
  /// The last collective that this rank runs another way, by its sequence, and what it is.
  std::atomic<std::uint64_t> elsewhere{0};
  std::atomic<std::uint64_t> elsewhere_label[2]{};

  /// Memory of the library's own through which vectors go that the others can not reach. The numbers count
  /// blocks, of every share alike, since the beginning.
  struct alignas(64) Stage {
    static constexpr std::uint32_t kUnknown = 0, kUsable = 1, kNone = 2;
    std::atomic<std::uint32_t> state{kUnknown};  // of `memory`
    LoadStore::Reference memory;
    alignas(64) std::atomic<std::uint64_t> given{0};   // laid there for those who sum them
    alignas(64) std::atomic<std::uint64_t> summed{0};  // of its own share, laid there for all
    alignas(64) std::atomic<std::uint64_t> taken{0};   // sums of the others that it has copied
  };
  Stage stage;
};
static_assert(sizeof(DirectBoard) <= LoadStore::kBoardBytes);

}  // namespace rondel
