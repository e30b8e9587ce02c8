// SPDX-License-Identifier: Apache-2.0
#include "ring/label.h"

#include <catch2/catch.hpp>
#include <set>

namespace rondel {
namespace {

using Kind = CollectiveKind;

CollectiveRequest request_of(Kind kind) {
  CollectiveRequest request;
  request.kind = kind;
  request.count = 1024;
  return request;
}

using Words = std::pair<std::uint64_t, std::uint64_t>;
Words words_of(const Label& label) { return {label.words[0], label.words[1]}; }

TEST_CASE("every field that matters to the collective is in its label") {
  std::set<Words> labels;
  CollectiveRequest request = request_of(Kind::reduce);
  labels.insert(words_of(make_label(request, 1)));
  labels.insert(words_of(make_label(request, 2)));
  request.op = ReduceOp::max;
  labels.insert(words_of(make_label(request, 1)));
  request.type = DataType::int64;
  labels.insert(words_of(make_label(request, 1)));
  request.root = 99'999;
  labels.insert(words_of(make_label(request, 1)));
  request.count = std::uint64_t{1} << 40;
  labels.insert(words_of(make_label(request, 1)));
  request.kind = Kind::broadcast;
  labels.insert(words_of(make_label(request, 1)));
  CHECK(labels.size() == 7);
}

TEST_CASE("fields that say nothing about the collective do not make labels differ") {
  CollectiveRequest one = request_of(Kind::all_gather), other = one;
  other.op = ReduceOp::max;
  other.root = 3;
  CHECK(make_label(one, 5) == make_label(other, 5));
  one = request_of(Kind::barrier);
  other = one;
  other.type = DataType::int8;
  other.count = 7;
  CHECK(make_label(one, 5) == make_label(other, 5));
  one = request_of(Kind::send);
  other = request_of(Kind::recv);
  one.root = 1;
  CHECK(make_label(one, 1) == make_label(other, 9));
}

TEST_CASE("counts per rank are compared by their hash") {
  const std::vector<std::uint64_t> counts{1, 2, 3}, moved{2, 1, 3}, longer{1, 2, 3, 0};
  CollectiveRequest request = request_of(Kind::all_gather);
  request.counts = counts;
  const Label label = make_label(request, 1);
  request.counts = moved;
  CHECK_FALSE(make_label(request, 1) == label);
  CHECK(hash_of(counts) != hash_of(longer));
  CHECK(describe(label).find("allgather #1 of float32 with counts per rank") == 0);
}

TEST_CASE("labels are read back for people") {
  CollectiveRequest request = request_of(Kind::all_reduce);
  CHECK(describe(make_label(request, 17)) == "allreduce #17 of 1024 float32 sum");
  request.kind = Kind::broadcast;
  request.root = 3;
  CHECK(describe(make_label(request, 1)) == "broadcast #1 of 1024 float32 from rank 3");
  CHECK(describe(make_label(request_of(Kind::barrier), 4)) == "barrier #4");
  CHECK(describe(make_label(request_of(Kind::send), 4)) == "send and recv of 1024 float32");
  CHECK(describe(Label{{~std::uint64_t{0}, 1}}).find("unknown operation") != std::string::npos);
}

TEST_CASE("a mismatch reads the same from both sides") {
  const Label sum = make_label(request_of(Kind::all_reduce), 3),
              barrier = make_label(request_of(Kind::barrier), 3);
  const std::string wanted = "rank 1 called allreduce #3 of 1024 float32 sum, rank 4 called barrier #3";
  CHECK(describe(LabelMismatch{4, sum, barrier, 8, 8}, 1) == wanted);
  CHECK(describe(LabelMismatch{1, barrier, sum, 8, 8}, 4) == wanted);
  CHECK(describe(LabelMismatch{4, sum, sum, 8, 16}, 1).find("8 bytes met 16") != std::string::npos);
  CHECK(describe(LabelMismatch{1, sum, sum, 16, 8}, 4).find("8 bytes met 16") != std::string::npos);
}

}  // namespace
}  // namespace rondel
