// SPDX-License-Identifier: Apache-2.0
// How ranks other than 0 find the meeting point that rank 0 leaves for them.
#include "bindings/c/meeting_point.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace rondel::c {
namespace {

/// Gives `before` so many times, then the value.
Rendezvous that_gives(const Bytes& before, int times, const Bytes& value) {
  return {.set = [](const std::string&, std::span<const std::byte>) { return Status(); },
          .get = [before, left = times, value](const std::string&, Deadline) mutable -> Result<Bytes> {
            return left-- > 0 ? before : value;
          }};
}

TEST_CASE("what a crash left in the place of a meeting point is read again until rank 0 replaces it") {
  const auto secret = Secret::generate();
  REQUIRE(secret.ok());
  const auto hosted = host_meeting_point({}, *secret, "127.0.0.1", 0);
  REQUIRE(hosted.ok());
  const auto whole = encode(hosted->point);
  REQUIRE(whole.ok());
  for (const Bytes& left_over : {Bytes(), Bytes(3), Bytes(kMeetingPointBytes)}) {
    const auto joined =
        join_through({}, that_gives(left_over, 2, *whole), "k", Deadline::in(std::chrono::seconds(20)));
    CHECK(joined.ok());
  }
}

TEST_CASE("a meeting point that stays cut short is told, at the deadline") {
  const auto never =
      join_through({}, that_gives({}, 1'000'000, {}), "k", Deadline::in(std::chrono::milliseconds(20)));
  REQUIRE_FALSE(never.ok());
  CHECK_THAT(never.status().text(),
             Catch::Contains("no meeting point") && Catch::Contains("see that rank 0 runs"));
}

}  // namespace
}  // namespace rondel::c
