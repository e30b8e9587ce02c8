// SPDX-License-Identifier: Apache-2.0
#include "ring/tuning.h"

#include <catch2/catch.hpp>

namespace rondel {
namespace {

using Kind = CollectiveKind;

Shape shape_of(Kind kind, Rank size, std::uint64_t bytes) {
  Shape shape;
  shape.kind = kind;
  shape.size = size;
  shape.element_bytes = 4;
  shape.count = bytes / 4;
  return shape;
}

Algorithm chosen(const Tuning& tuning, Shape shape, DataType type = DataType::float32,
                 ReduceOp op = ReduceOp::sum) {
  tuning.choose(shape, type, op);
  REQUIRE(can_run(shape));
  return shape.algorithm;
}

Cost cost_of(double hop_seconds, double bytes_per_second) {
  return {hop_seconds, hop_seconds / 8, bytes_per_second, 8e9};
}

TEST_CASE("names are parsed; others are refused with the list of what there is") {
  CHECK(*parse_algorithm("circulant").value() == Algorithm::circulant);
  CHECK_FALSE(parse_algorithm("").value().has_value());
  const auto refused = parse_algorithm("tree");
  CHECK(refused.code() == Code::invalid_argument);
  for (const char* name : {"ring", "circulant", "one_shot", "recursive_doubling", "hierarchical"})
    CHECK(refused.status().text().find(name) != std::string::npos);
}

TEST_CASE("every collective gets an algorithm that can run it, whatever was asked for") {
  for (const std::optional<Algorithm> wanted :
       {std::optional<Algorithm>(), std::optional(Algorithm::ring), std::optional(Algorithm::circulant),
        std::optional(Algorithm::one_shot), std::optional(Algorithm::recursive_doubling)})
    for (int kind = 0; kind <= static_cast<int>(Kind::barrier); ++kind)
      for (const Rank size : {1, 2, 3, 8, 100, 1024})
        for (const std::uint64_t bytes : {0U, 4U, 4096U, 1U << 20U, 1U << 28U}) {
          const Tuning tuning(Cost{}, Limits{}, wanted, 0);
          Shape shape = shape_of(static_cast<Kind>(kind), size, bytes);
          chosen(tuning, shape);
          chosen(tuning, shape, DataType::int32, ReduceOp::max);
        }
}

TEST_CASE("large vectors go by host where some ranks share one; small ones and lone ranks do not") {
  const Tuning tuning;
  Shape shape = shape_of(Kind::all_reduce, 4, 64U << 20U);
  CHECK(chosen(tuning, shape) == Algorithm::ring);
  shape.places = {0, 0, 2, 2};
  CHECK(chosen(tuning, shape) == Algorithm::hierarchical);
  CHECK(chosen(tuning, shape, DataType::int32, ReduceOp::max) == Algorithm::hierarchical);
  shape.places = {0, 1, 2, 3};
  CHECK(chosen(tuning, shape) == Algorithm::ring);
  shape.places = {0, 0, 0, 0};
  CHECK(chosen(tuning, shape) == Algorithm::ring);
  shape = shape_of(Kind::all_reduce, 4, 4096);
  shape.places = {0, 0, 2, 2};
  CHECK(chosen(tuning, shape) != Algorithm::hierarchical);
}

TEST_CASE("what was asked for is used where it can run") {
  const Tuning ring(Cost{}, Limits{}, Algorithm::ring, 0);
  CHECK(chosen(ring, shape_of(Kind::all_reduce, 8, 4)) == Algorithm::ring);
  CHECK(chosen(ring, shape_of(Kind::broadcast, 8, 4)) == Algorithm::ring);
  CHECK(chosen(ring, shape_of(Kind::barrier, 8, 0)) == Algorithm::linear);
  const Tuning one_shot(Cost{}, Limits{}, Algorithm::one_shot, 0);
  CHECK(chosen(one_shot, shape_of(Kind::all_reduce, 8, 64 * 1024)) == Algorithm::one_shot);
  CHECK(chosen(one_shot, shape_of(Kind::all_reduce, 8, 64 << 20)) == Algorithm::ring);
}

TEST_CASE("the order of floating-point folds never depends on what was measured") {
  const Cost costs[] = {cost_of(1e-7, 1e11), cost_of(1e-6, 1e9), cost_of(2e-5, 1e9), cost_of(1e-3, 1e8)};
  /// Algorithms that give the same bits count as one.
  const auto order_of = [](const Cost& cost, Shape shape, DataType type) {
    Tuning(cost, Limits{}, std::nullopt, 0).choose(shape, type, ReduceOp::sum);
    REQUIRE(can_run(shape));
    const bool power_of_two = (shape.size & (shape.size - 1)) == 0;
    if (shape.algorithm == Algorithm::one_shot && shape.fold_pairwise) return Algorithm::recursive_doubling;
    if (shape.algorithm == Algorithm::circulant && power_of_two) return Algorithm::recursive_doubling;
    return shape.algorithm;
  };
  for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::reduce})
    for (const DataType type : {DataType::float32, DataType::float16})
      for (Rank size = 3; size <= 40; ++size)
        for (std::uint64_t bytes = 4; bytes <= std::uint64_t{1} << 30; bytes *= 2) {
          const Shape shape = shape_of(kind, size, bytes);
          INFO("size " << size << " bytes " << bytes);
          for (const Cost& cost : costs)
            REQUIRE(order_of(cost, shape, type) == order_of(costs[0], shape, type));
        }
}

TEST_CASE("measured costs decide where bits do not depend on the order") {
  const Tuning far(cost_of(1e-3, 1e10), Limits{}, std::nullopt, 0);
  const Tuning slow(cost_of(1e-6, 1e8), Limits{}, std::nullopt, 0);
  const Shape two = shape_of(Kind::all_reduce, 2, 256 * 1024);
  CHECK(chosen(far, two) != Algorithm::ring);  // one hop rather than two
  const Shape many = shape_of(Kind::all_reduce, 16, 64 * 1024);
  CHECK(chosen(far, many, DataType::int32) == Algorithm::one_shot);
  CHECK(chosen(slow, many, DataType::int32) == Algorithm::circulant);
  CHECK(chosen(far, many) == Algorithm::one_shot);
  CHECK(chosen(slow, many) == Algorithm::circulant);
  CHECK(chosen(far, many, DataType::bfloat16) == Algorithm::recursive_doubling);
}

TEST_CASE("small payloads take few hops, large ones the ring; few ranks sooner than many") {
  const Tuning tuning;
  CHECK(chosen(tuning, shape_of(Kind::all_reduce, 4, 64)) != Algorithm::ring);
  CHECK(chosen(tuning, shape_of(Kind::all_reduce, 3, 64)) == Algorithm::one_shot);
  CHECK(chosen(tuning, shape_of(Kind::all_reduce, 4, 64 << 20)) == Algorithm::ring);
  CHECK(chosen(tuning, shape_of(Kind::all_reduce, 6, 256 << 10)) == Algorithm::circulant);
  CHECK(chosen(tuning, shape_of(Kind::all_reduce, 64, 64 << 20)) == Algorithm::circulant);
  CHECK(chosen(tuning, shape_of(Kind::broadcast, 4, 64)) == Algorithm::tree);
  CHECK(chosen(tuning, shape_of(Kind::broadcast, 4, 64 << 20)) == Algorithm::ring);
}

TEST_CASE("ranks that call in and out of place choose alike") {
  const Tuning tuning;
  for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::reduce})
    for (const Rank size : {2, 3, 5, 8})
      for (std::uint64_t bytes = 4; bytes <= 64 << 20; bytes *= 4) {
        Shape in = shape_of(kind, size, bytes), out = in;
        in.in_place = true;
        tuning.choose(in, DataType::int32, ReduceOp::sum);
        tuning.choose(out, DataType::int32, ReduceOp::sum);
        in.in_place = false;
        CHECK(in == out);
      }
}

TEST_CASE("segments: as asked for, else what the endpoint likes, and twice that in short chunks") {
  Shape shape = shape_of(Kind::all_reduce, 2, 64 << 20);
  Tuning(Cost{}, Limits{}, Algorithm::ring, 12345).choose(shape, DataType::float32, ReduceOp::sum);
  CHECK(shape.segment_bytes == 12345);
  const Tuning tuning(Cost{}, Limits{}, Algorithm::ring, 0);
  tuning.choose(shape, DataType::float32, ReduceOp::sum);
  CHECK(shape.segment_bytes == Limits{}.preferred_segment_bytes);
  shape = shape_of(Kind::all_reduce, 2, 2 << 20);
  tuning.choose(shape, DataType::float32, ReduceOp::sum);
  CHECK(shape.segment_bytes == 2 * Limits{}.preferred_segment_bytes);
}

TEST_CASE("segments grow with vectors that no machine holds, so that their schedules stay small") {
  Shape shape = shape_of(Kind::all_reduce, 2, std::uint64_t{1} << 46U);
  Tuning(Cost{}, Limits{}, Algorithm::ring, 0).choose(shape, DataType::float32, ReduceOp::sum);
  const std::uint64_t segments = (std::uint64_t{1} << 46U) / shape.segment_bytes;
  CHECK(segments <= 65536);
  CHECK(segments >= 16384);
}

}  // namespace
}  // namespace rondel
