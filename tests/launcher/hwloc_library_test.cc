// SPDX-License-Identifier: Apache-2.0
#include "launcher/hwloc_library.h"

#include <catch2/catch.hpp>

TEST_CASE("a host without the library, or with another one in its place, is told so") {
  const auto none = rondel::load_hwloc("libno-such-hwloc.so.15");
  REQUIRE_FALSE(none.ok());
  CHECK(none.code() == rondel::Code::unavailable);
  for (const char* word : {"--bind-to", "libno-such-hwloc.so.15", "libhwloc15"})
    CHECK_THAT(none.status().text(), Catch::Contains(word));
  const auto other = rondel::load_hwloc("libc.so.6");
  REQUIRE_FALSE(other.ok());
  CHECK_THAT(other.status().text(), Catch::Contains("no function hwloc_"));
}
