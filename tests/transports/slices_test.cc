// SPDX-License-Identifier: Apache-2.0
#include "transports/slices.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/support/reference.h"
#include "tests/support/seed.h"

namespace rondel {
namespace {

// Cuts all of `region` into random slices, in order.
std::vector<Slice> cut(const Registration& region, test::Random& random) {
  std::vector<Slice> slices;
  const std::size_t bytes = region.memory().bytes;
  for (std::size_t offset = 0; offset < bytes; offset += slices.back().bytes)
    slices.push_back({&region, offset, std::min<std::size_t>(random.below(20), bytes - offset)});
  return slices;
}

struct Region {
  explicit Region(Bytes content) : bytes(std::move(content)), registration({bytes.data(), bytes.size()}) {}
  Bytes bytes;
  Registration registration;
};

Bytes counted(std::size_t bytes) {
  Bytes content(bytes);
  for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<std::byte>(i * 7 + 1);
  return content;
}

TEST_CASE("a cursor walks over empty slices and ends behind the last byte") {
  Region region(counted(10));
  const std::vector<Slice> slices{{&region.registration, 0, 0},
                                  {&region.registration, 4, 3},
                                  {&region.registration, 9, 0},
                                  {&region.registration, 0, 1}};
  SliceCursor cursor(slices);
  REQUIRE(cursor.run().size() == 3);
  CHECK(cursor.run().data() == region.bytes.data() + 4);
  cursor.advance(2);
  CHECK(cursor.run().size() == 1);
  cursor.advance(1);
  REQUIRE(cursor.run().size() == 1);
  CHECK(cursor.run().data() == region.bytes.data());
  cursor.advance(1);
  CHECK(cursor.run().empty());
  CHECK(SliceCursor(std::span<const Slice>()).run().empty());
}

TEST_CASE("copies do not depend on where the two sides are cut") {
  test::Random random(test::test_seed());
  for (int round = 0; round < 200; ++round) {
    Region from(counted(random.below(400)));
    Region to(Bytes(from.bytes.size()));
    const auto from_slices = cut(from.registration, random);
    const auto to_slices = cut(to.registration, random);
    SliceCursor source(from_slices);
    SliceCursor destination(to_slices);
    const std::size_t first = random.below(from.bytes.size() + 1);
    copy_slices(destination, source, first);
    copy_slices(destination, source, from.bytes.size() - first);
    REQUIRE(to.bytes == from.bytes);
    REQUIRE(source.run().empty());
    REQUIRE(destination.run().empty());
  }
}

TEST_CASE("folds do not depend on where the three sides are cut") {
  test::Random random(test::test_seed());
  for (int round = 0; round < 400; ++round) {
    const auto type = static_cast<DataType>(random.below(kDataTypeCount));
    const std::size_t elements = random.below(60);
    const std::vector<Bytes> inputs{test::make_input(type, ReduceOp::sum, 0, elements),
                                    test::make_input(type, ReduceOp::sum, 1, elements)};
    Region other(inputs[0]);
    Region incoming(inputs[1]);
    Region to(Bytes(inputs[0].size()));
    const auto other_slices = cut(other.registration, random);
    const auto incoming_slices = cut(incoming.registration, random);
    const auto to_slices = cut(to.registration, random);
    SliceCursor first(other_slices);
    SliceCursor second(incoming_slices);
    SliceCursor destination(to_slices);
    fold_slices({.type = type}, destination, first, second, to.bytes.size());
    REQUIRE(test::difference(type, ReduceOp::sum, to.bytes,
                             test::reference_reduce(type, ReduceOp::sum, inputs)) == "");

    SliceCursor in_place(other_slices);
    SliceCursor same(other_slices);
    SliceCursor again(incoming_slices);
    fold_slices({.type = type}, in_place, same, again, other.bytes.size());
    REQUIRE(other.bytes == to.bytes);
  }
}

}  // namespace
}  // namespace rondel
