// SPDX-License-Identifier: Apache-2.0
// The device in memory; device_test.cc has the same on a real one.
#include "tests/transports/verbs/polled_path.h"

#include <catch2/catch.hpp>

namespace rondel::verbs::test {
namespace {

TEST_CASE("pieces cost neither memory nor system calls while a rank polls") {
  const FakeVerbs fabric;
  check(costs_of_polling(uncounted_fake(), Verb::recv), false);
  const PolledCosts sum = costs_of_polling(uncounted_fake(), Verb::recv_reduce);
  check(sum, false);
  CHECK((!sum.calls.traced || sum.requests > 100));  // pieces, and credits for them
}

}  // namespace
}  // namespace rondel::verbs::test
