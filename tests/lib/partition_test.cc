// SPDX-License-Identifier: Apache-2.0
#include "lib/partition.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

namespace {

using rondel::part_of;
using rondel::pieces_for;
using rondel::Range;

TEST_CASE("partition: parts cover everything once, in order, larger ones first, sizes at most one apart") {
  for (std::uint64_t total = 0; total <= 70; ++total)
    for (std::uint64_t parts = 1; parts <= 20; ++parts) {
      INFO(total << " elements in " << parts << " parts");
      std::uint64_t next = 0;
      std::uint64_t last_count = part_of(total, parts, 0).count;
      for (std::uint64_t index = 0; index < parts; ++index) {
        const Range part = part_of(total, parts, index);
        REQUIRE(part.begin == next);
        REQUIRE(part.count <= last_count);
        REQUIRE((part.count == total / parts || part.count == total / parts + 1));
        REQUIRE(part.end() == part.begin + part.count);
        next = part.end();
        last_count = part.count;
      }
      REQUIRE(next == total);
    }
}

TEST_CASE("partition: more parts than elements leave empty parts at the end") {
  CHECK(part_of(2, 4, 1) == Range{1, 1});
  CHECK(part_of(2, 4, 2) == Range{2, 0});
  CHECK(part_of(2, 4, 3) == Range{2, 0});
}

TEST_CASE("partition: counts beyond 32 bits and at the end of 64 bits do not wrap") {
  const std::uint64_t total = (std::uint64_t{1} << 31) + 7;
  CHECK(part_of(total, 2, 1) == Range{(std::uint64_t{1} << 30) + 4, (std::uint64_t{1} << 30) + 3});
  const std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t parts : {2U, 3U, 7U, 1000U, 131072U}) {
    CHECK(part_of(greatest, parts, parts - 1).end() == greatest);
    CHECK(part_of(greatest, parts, 1).begin == part_of(greatest, parts, 0).count);
  }
}

TEST_CASE("partition: pieces are as few as the limit allows, and at least one") {
  CHECK(pieces_for(0, 5) == 1);
  CHECK(pieces_for(1, 5) == 1);
  CHECK(pieces_for(5, 5) == 1);
  CHECK(pieces_for(6, 5) == 2);
  CHECK(pieces_for(10, 5) == 2);
  CHECK(pieces_for(11, 5) == 3);
  CHECK(pieces_for(std::numeric_limits<std::uint64_t>::max(), 1) ==
        std::numeric_limits<std::uint64_t>::max());
  for (std::uint64_t total = 1; total <= 50; ++total)
    for (std::uint64_t limit = 1; limit <= 60; ++limit) {
      const std::uint64_t pieces = pieces_for(total, limit);
      REQUIRE(part_of(total, pieces, 0).count <= limit);
      if (pieces > 1) REQUIRE(part_of(total, pieces - 1, 0).count > limit);
    }
}

}  // namespace
