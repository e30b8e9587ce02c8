// SPDX-License-Identifier: Apache-2.0
#include "lib/store/memory_store.h"

#include <catch2/catch.hpp>

#include "tests/lib/store_suite.h"

namespace rondel {
namespace {

TEST_CASE("the memory store is a store") {
  const auto data = make_memory_store_data();
  test::run_store_suite([&data] { return open_memory_store(data); });
}

TEST_CASE("memory stores of different data share nothing") {
  const auto a = open_memory_store(make_memory_store_data());
  const auto b = open_memory_store(make_memory_store_data());
  REQUIRE(a->set("key", {}).ok());
  CHECK(b->get("key", Deadline::in(std::chrono::milliseconds(-1))).code() == Code::timed_out);
}

}  // namespace
}  // namespace rondel
