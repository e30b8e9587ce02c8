// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep.h"

#include <catch2/catch.hpp>

#include "bench/peers/sweep.h"

namespace rondel::bench {
namespace {

TEST_CASE("sizes carry binary suffixes") {
  CHECK(*parse_bytes("8") == 8);
  CHECK(*parse_bytes("0") == 0);
  CHECK(*parse_bytes("64K") == 65'536);
  CHECK(*parse_bytes("128m") == 134'217'728);
  CHECK(*parse_bytes("1G") == 1'073'741'824);
  CHECK(*parse_bytes("1024G") == std::size_t{1} << 40);
}

TEST_CASE("what is no size is refused and quoted") {
  for (const char* const text :
       {"", "K", "4Q", "-4", "4.5M", "64MB", " 4", "4 ", "18446744073709551616", "1025G"}) {
    INFO(text);
    const auto bytes = parse_bytes(text);
    REQUIRE_FALSE(bytes.ok());
    CHECK(bytes.code() == Code::invalid_argument);
    CHECK(bytes.status().text().find('"' + std::string(text) + '"') != std::string::npos);
  }
}

TEST_CASE("a sweep multiplies by the factor or adds the step") {
  Sweep sweep;
  sweep.begin_bytes = 4;
  sweep.end_bytes = 100;
  CHECK(sizes_of(sweep) == std::vector<std::size_t>{4, 16, 64});
  sweep.end_bytes = 256;
  CHECK(sizes_of(sweep) == std::vector<std::size_t>{4, 16, 64, 256});
  sweep.step_bytes = 100;
  CHECK(sizes_of(sweep) == std::vector<std::size_t>{4, 104, 204});
  sweep.end_bytes = 4;
  CHECK(sizes_of(sweep) == std::vector<std::size_t>{4});
}

TEST_CASE("a sweep ends where the size type does") {
  Sweep sweep;
  sweep.begin_bytes = std::size_t{1} << 62;
  sweep.end_bytes = ~std::size_t{0};
  CHECK(sizes_of(sweep) == std::vector<std::size_t>{std::size_t{1} << 62});
}

TEST_CASE("iterations and warm-up follow the size unless given") {
  Sweep sweep;
  CHECK(iterations_for(sweep, 4) == 2000);
  CHECK(iterations_for(sweep, 1 << 20) == 256);
  CHECK(iterations_for(sweep, 1 << 30) == 10);
  CHECK(warmup_for(sweep, 4) == 100);
  CHECK(warmup_for(sweep, 1 << 20) == 51);
  CHECK(warmup_for(sweep, 1 << 30) == 3);
  sweep.iterations = 7;
  sweep.warmup = 0;
  CHECK(iterations_for(sweep, 4) == 7);
  CHECK(warmup_for(sweep, 4) == 0);
}

TEST_CASE("slow sizes get fewer iterations, given ones are kept") {
  Sweep sweep;
  CHECK(limit_iterations(sweep, 2000, 1e-6) == 2000);
  CHECK(limit_iterations(sweep, 2000, 1e-2) == 50);
  CHECK(limit_iterations(sweep, 2000, 10) == 10);
  CHECK(limit_iterations(sweep, 2000, 0) == 2000);
  sweep.iterations = 2000;
  CHECK(limit_iterations(sweep, 2000, 10) == 2000);
}

TEST_CASE("the peer programs repeat as often as this one") {
  const SweepOptions theirs = sweep_defaults();
  const Sweep ours;
  CHECK(sizes_of(ours).front() == theirs.begin_bytes);
  CHECK(sizes_of(ours).back() == theirs.end_bytes);
  for (std::size_t bytes = 1; bytes < std::size_t{1} << 33; bytes = bytes * 3 / 2 + 1) {
    INFO(bytes);
    CHECK(sweep_iterations(&theirs, bytes) == iterations_for(ours, bytes));
    CHECK(sweep_warmup(&theirs, bytes) == warmup_for(ours, bytes));
  }
}

}  // namespace
}  // namespace rondel::bench
