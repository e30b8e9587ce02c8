// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/beacon.h"

#include <catch2/catch.hpp>
#include <utility>

namespace rondel::shm {
namespace {

TEST_CASE("a beacon is reached as long as it is lit, by many at once") {
  auto beacon = Beacon::light();
  REQUIRE(beacon.ok());
  const Bytes address = (*beacon)->address();
  for (int i = 0; i < 1000; ++i) CHECK(Beacon::reach(address).text() == "ok");  // more than its queue holds
  auto held = std::move(beacon).value();
  held.reset();
  CHECK(Beacon::reach(address).code() == Code::unavailable);
}

TEST_CASE("what is no beacon's address is refused") {
  CHECK(Beacon::reach({}).code() == Code::refused);
  CHECK(Beacon::reach(Bytes(200, std::byte{0xff})).code() == Code::refused);
}

}  // namespace
}  // namespace rondel::shm
