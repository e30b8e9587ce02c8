// SPDX-License-Identifier: Apache-2.0
#include "ring/order.h"

#include <catch2/catch.hpp>

namespace rondel {
namespace {

std::vector<Rank> order_of(const std::vector<std::string>& hosts) { return ring_order(hosts); }

TEST_CASE("ranks of one host stand side by side, hosts by their lowest rank, ranks ascending") {
  CHECK(order_of({"a", "b", "a", "b"}) == std::vector<Rank>{0, 2, 1, 3});
  CHECK(order_of({"z", "z", "a", "a"}) == std::vector<Rank>{0, 1, 2, 3});
  CHECK(order_of({"b", "a", "c", "a", "b", "b"}) == std::vector<Rank>{0, 4, 5, 1, 3, 2});
  CHECK(order_of({}).empty());
}

TEST_CASE("ranks placed host by host keep the order of their numbers") {
  CHECK(by_number(order_of({"a", "a", "b", "c", "c"})));
  CHECK_FALSE(by_number(order_of({"a", "b", "a"})));
  CHECK(by_number({}));
}

}  // namespace
}  // namespace rondel
