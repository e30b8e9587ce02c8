// SPDX-License-Identifier: Apache-2.0
#include "ring/request.h"

#include <array>
#include <catch2/catch.hpp>

namespace rondel {
namespace {

using Kind = CollectiveKind;

std::array<float, 64> buffer;

CollectiveRequest request_of(Kind kind, std::uint64_t count) {
  CollectiveRequest request;
  request.kind = kind;
  request.count = count;
  request.input = buffer.data();
  request.output = buffer.data() + 32;
  return request;
}

TEST_CASE("the footprint is what the collective reads and writes on that rank") {
  const auto footprint = [](Kind kind, Rank rank) {
    const auto checked = check_request(request_of(kind, 4), rank, 4);
    REQUIRE(checked.ok());
    return std::pair(checked->input_bytes, checked->output_bytes);
  };
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  CHECK(footprint(Kind::all_reduce, 1) == Pair(16, 16));
  CHECK(footprint(Kind::reduce_scatter, 1) == Pair(64, 16));
  CHECK(footprint(Kind::all_gather, 1) == Pair(16, 64));
  CHECK(footprint(Kind::broadcast, 0) == Pair(16, 16));
  CHECK(footprint(Kind::broadcast, 1) == Pair(0, 16));
  CHECK(footprint(Kind::reduce, 0) == Pair(16, 16));
  CHECK(footprint(Kind::reduce, 1) == Pair(16, 0));
  CHECK(footprint(Kind::gather, 0) == Pair(16, 64));
  CHECK(footprint(Kind::gather, 3) == Pair(16, 0));
  CHECK(footprint(Kind::scatter, 0) == Pair(64, 16));
  CHECK(footprint(Kind::all_to_all, 2) == Pair(64, 64));
  CHECK(footprint(Kind::barrier, 2) == Pair(0, 0));
  CHECK(footprint(Kind::send, 2) == Pair(16, 0));
  CHECK(footprint(Kind::recv, 2) == Pair(0, 16));
}

TEST_CASE("in place means: exactly the collective's own form") {
  CollectiveRequest request = request_of(Kind::all_gather, 4);
  request.output = buffer.data();
  request.input = buffer.data() + 8;
  CHECK(check_request(request, 2, 4)->in_place);
  CHECK(check_request(request, 1, 4).code() == Code::invalid_argument);
  request = request_of(Kind::reduce_scatter, 4);
  request.output = buffer.data() + 4;
  CHECK(check_request(request, 1, 4)->in_place);
  const std::vector<std::uint64_t> counts{4, 0, 2, 6};
  request.counts = counts;
  request.output = buffer.data() + 6;
  CHECK(check_request(request, 3, 4)->in_place);
  request = request_of(Kind::all_to_all, 4);
  request.output = buffer.data();
  CHECK(check_request(request, 1, 4).code() == Code::invalid_argument);
  request = request_of(Kind::all_reduce, 4);
  request.output = buffer.data() + 4;  // side by side is apart
  CHECK(check_request(request, 1, 4).ok());
  CHECK_FALSE(check_request(request, 1, 4)->in_place);
}

TEST_CASE("null buffers are fine where nothing is touched") {
  CollectiveRequest request;
  request.kind = Kind::all_reduce;
  CHECK(check_request(request, 0, 2).ok());
  request = request_of(Kind::broadcast, 4);
  request.input = nullptr;
  CHECK(check_request(request, 1, 2).ok());
  CHECK(check_request(request, 0, 2).code() == Code::invalid_argument);
  request = request_of(Kind::reduce, 4);
  request.output = nullptr;
  CHECK(check_request(request, 1, 2).ok());
  CHECK(check_request(request, 0, 2).code() == Code::invalid_argument);
}

TEST_CASE("counts that would leave 63 bits are refused, not wrapped") {
  const auto code = [](Kind kind, std::uint64_t count) {
    return check_request(request_of(kind, count), 1, 4).code();
  };
  CHECK(code(Kind::all_reduce, std::uint64_t{1} << 61) == Code::invalid_argument);
  CHECK(code(Kind::all_gather, std::uint64_t{1} << 62) == Code::invalid_argument);
  CHECK(code(Kind::gather, std::uint64_t{1} << 60) == Code::invalid_argument);
  const std::vector<std::uint64_t> counts{1, 2, ~std::uint64_t{0}, 1};
  CollectiveRequest request = request_of(Kind::all_gather, 0);
  request.counts = counts;
  CHECK(check_request(request, 0, 4).code() == Code::invalid_argument);
}

TEST_CASE("types without the operator are unsupported, in words") {
  CollectiveRequest request = request_of(Kind::all_reduce, 4);
  request.type = DataType::boolean;
  request.op = ReduceOp::average;
  const auto refused = check_request(request, 0, 2);
  CHECK(refused.code() == Code::unsupported);
  CHECK(refused.status().text().find("bool has no average") != std::string::npos);
  request.kind = Kind::broadcast;  // has no operator to support
  CHECK(check_request(request, 0, 2).ok());
}

TEST_CASE("requests are told as a user would say them") {
  CHECK(describe(request_of(Kind::all_reduce, 4)) == "allreduce of 4 float32 sum");
  CHECK(describe(request_of(Kind::send, 4), 7) == "send #7 of 4 float32 to rank 0");
  CHECK(describe(request_of(Kind::scatter, 4), 7) == "scatter #7 of 4 float32 from rank 0");
  CHECK(describe(request_of(Kind::barrier, 4)) == "barrier");
}

}  // namespace
}  // namespace rondel
