// SPDX-License-Identifier: Apache-2.0
// The hierarchical all-reduce on ranks of which pairs share a host.
#include <catch2/catch.hpp>
#include <string>

#include "tests/ring/ring_world.h"

namespace rondel::test {
namespace {

void ask_for_hierarchical(Rank, CommunicatorOptions& options) {
  options.algorithm = "hierarchical";
  options.segment_bytes = 512;
}

}  // namespace

TEST_CASE(
    "the hierarchical all-reduce gives the reference's answer, for hosts that differ and for averages") {
  for (const Rank size : {2, 3, 4, 5, 6, 8}) {  // the last host of odd sizes has one rank
    INFO(size << " ranks");
    RingWorld world(size);
    CHECK(world.run(
              [](RankTest& test, Communicator& communicator) {
                for (const std::uint64_t count : {0U, 1U, 5U, 3'001U, 20'000U})
                  for (const DataType type : {DataType::float32, DataType::float16, DataType::int64})
                    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
                      Trial trial;
                      trial.type = type;
                      trial.op = op;
                      trial.count = count;
                      trial.in_place = count % 2 == 1;
                      trial.seed = count + 1;
                      if (supports(type, op)) try_out(test, communicator, trial);
                    }
              },
              ask_for_hierarchical) == "");
  }
}

TEST_CASE("the hierarchical all-reduce is what large vectors get where some ranks share a host") {
  RingWorld world(4);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    test.expect_equal(std::string(communicator.transport_name()), std::string("pairs+loopback"), "transport");
    Trial trial;
    trial.count = 1 << 18;
    try_out(test, communicator, trial);
  }) == "");
}

}  // namespace rondel::test
