// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm.h"

#include <catch2/catch.hpp>

namespace rondel {
namespace {

using Counts = std::vector<std::int32_t>;

TEST_CASE("Slurm's counts: one number for each node") {
  CHECK(slurm_counts("4") == Counts{4});
  CHECK(slurm_counts("2(x3),1") == Counts{2, 2, 2, 1});
  CHECK(slurm_counts("1,2,4(x1)") == Counts{1, 2, 4});
  CHECK(slurm_counts("7(x65536)").size() == kMostSlurmNodes);
}

TEST_CASE("Slurm's counts: what can not be read gives none, and nothing is expanded beyond the most") {
  for (const char* const list : {"", ",", "1,", ",1", "x", "-1", "0", "2(", "2(x", "2(x3", "2(x0)", "2(3)",
                                 "2x3", "1 2", "99999999999", "1(x65537)", "1(x65536),1", "1(x99999999999)"})
    CHECK(slurm_counts(list).empty());
}

}  // namespace
}  // namespace rondel
