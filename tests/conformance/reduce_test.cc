// SPDX-License-Identifier: Apache-2.0
// The contract's rules on recv_reduce.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "lib/reduce.h"
#include "tests/conformance/cuts.h"
#include "tests/conformance/world.h"
#include "tests/support/reference.h"
#include "tests/support/seed.h"

namespace rondel::conformance {
namespace {

std::vector<Reduction> every_reduction() {
  std::vector<Reduction> all;
  for (std::size_t type = 0; type < kDataTypeCount; ++type)
    for (std::size_t op = 0; op < kReduceOpCount; ++op)
      if (supports(static_cast<DataType>(type), static_cast<ReduceOp>(op)))
        all.push_back({.type = static_cast<DataType>(type), .op = static_cast<ReduceOp>(op)});
  return all;
}

std::string name_of(const Reduction& reduction) {
  return std::string(rondel::name_of(reduction.type)) + " " + std::string(rondel::name_of(reduction.op));
}

// What the contract asks for, by the kernel applied to the whole.
Bytes folded(const Reduction& r, const Bytes& other, const Bytes& incoming) {
  Bytes result(other.size());
  const std::size_t elements = other.size() / size_of(r.type);
  if (r.incoming_first)
    fold(r.type, r.op, result.data(), incoming.data(), other.data(), elements, 1.0F - r.incoming_share);
  else
    fold(r.type, r.op, result.data(), other.data(), incoming.data(), elements, r.incoming_share);
  return result;
}

// Both ranks send `mine` to each other and fold what comes with it; the slices are cut at random places.
Bytes exchange_and_fold(Member& m, const Reduction& reduction, const Bytes& mine, bool in_place,
                        test::Random& random) {
  CutBuffer out(m.e, mine.size(), random);
  CutBuffer other(m.e, mine.size(), random);
  CutBuffer destination(m.e, mine.size(), random);
  out.scatter(mine);
  other.scatter(mine);
  if (in_place) destination.scatter(mine);
  Completion& done = m.armed(2);
  const Rank peer = 1 - m.rank();
  const std::array works{Work{.verb = Verb::send, .peer = peer, .local = out.slices(), .done = &done},
                         Work{.verb = Verb::recv_reduce,
                              .peer = peer,
                              .local = destination.slices(),
                              .other = in_place ? std::span<const Slice>() : other.slices(),
                              .reduction = reduction,
                              .done = &done}};
  m.t.require_ok(m.e.post(works, {}), "post");
  m.t.require_ok(m.progress_until(done), "finish");
  m.t.expect(destination.gaps_are_untouched(),
             name_of(reduction) + ": bytes between slices stay as they were");
  m.t.expect(other.gather() == mine, name_of(reduction) + ": `other` stays as it was");
  m.t.expect(out.gather() == mine, name_of(reduction) + ": the source stays as it was");
  return destination.gather();
}

void check_reduction(Member& m, const Reduction& reduction, std::size_t elements, test::Random& random) {
  const std::array inputs{test::make_input(reduction.type, reduction.op, 0, elements),
                          test::make_input(reduction.type, reduction.op, 1, elements)};
  const Bytes& mine = inputs[static_cast<std::size_t>(m.rank())];
  const Bytes& theirs = inputs[static_cast<std::size_t>(1 - m.rank())];
  for (const bool in_place : {true, false}) {
    const Bytes found = exchange_and_fold(m, reduction, mine, in_place, random);
    m.t.expect(found == folded(reduction, mine, theirs),
               name_of(reduction) + ": bit for bit what the kernel gives");
    if (reduction.op == ReduceOp::average) continue;
    const Bytes wanted = test::reference_reduce(reduction.type, reduction.op, inputs);
    m.t.expect(test::difference(reduction.type, reduction.op, found, wanted).empty(),
               name_of(reduction) + ": " + test::difference(reduction.type, reduction.op, found, wanted));
  }
}

TEST_CASE("R1: recv_reduce folds every type with every operator, in place and with `other`") {
  const std::uint64_t seed = test::test_seed();
  CHECK(run_world(2, [seed](Member& m) {
          test::Random random(seed + static_cast<std::uint64_t>(m.rank()));
          for (const Reduction& reduction : every_reduction())
            for (const std::size_t elements : {std::size_t{1}, std::size_t{77}, std::size_t{1000}})
              check_reduction(m, reduction, elements, random);
        }) == "");
}

// A short input over and over again: large, and cheap to make. 4,099 is prime, so that shifted pieces differ.
Bytes repeated_input(const Reduction& reduction, Rank rank, std::size_t elements) {
  const Bytes pattern = test::make_input(reduction.type, reduction.op, rank, 4099);
  Bytes content(elements * size_of(reduction.type));
  for (std::size_t done = 0; done < content.size(); done += pattern.size())
    std::memcpy(&content[done], pattern.data(), std::min(pattern.size(), content.size() - done));
  return content;
}

TEST_CASE("R2: each element is folded once, however large the work") {
  CHECK(run_world(2, [](Member& m) {
          test::Random random(11);
          const std::size_t large = (8U << 20U) + 3;  // elements of one byte; no power of two divides it
          const std::array reductions{Reduction{.type = DataType::float32},
                                      Reduction{.type = DataType::float64, .op = ReduceOp::max},
                                      Reduction{.type = DataType::int8, .op = ReduceOp::sum}};
          for (const Reduction& reduction : reductions) {
            const std::size_t elements = large / size_of(reduction.type);
            const Bytes mine = repeated_input(reduction, m.rank(), elements);
            const Bytes theirs = repeated_input(reduction, 1 - m.rank(), elements);
            const Bytes found = exchange_and_fold(m, reduction, mine, m.rank() == 0, random);
            m.t.expect(found == folded(reduction, mine, theirs), name_of(reduction) + ": as in one piece");
          }
        }) == "");
}

TEST_CASE("R3: incoming_first and incoming_share decide order and weight of the operands") {
  const std::uint64_t seed = test::test_seed();
  CHECK(run_world(2, [seed](Member& m) {
          test::Random random(seed + static_cast<std::uint64_t>(m.rank()));
          for (const DataType type :
               {DataType::float16, DataType::bfloat16, DataType::float32, DataType::int32})
            for (const float share : {0.5F, 0.25F, 1.0F / 3, 0.8F})
              for (const bool first : {false, true})
                check_reduction(
                    m,
                    {.type = type, .op = ReduceOp::average, .incoming_share = share, .incoming_first = first},
                    33, random);
        }) == "");
}

TEST_CASE("R4: NaN operands come in the order that incoming_first asks for") {
  CHECK(run_world(2, [](Member& m) {
          test::Random random(3);
          const auto nan_of = [](Rank rank) { return std::nanf(rank == 0 ? "1" : "2"); };
          std::array<Bytes, 2> nans{Bytes(40), Bytes(40)};
          for (Rank rank = 0; rank < 2; ++rank)
            for (std::size_t i = 0; i < 40; i += 4) {
              const float value = nan_of(rank);
              std::memcpy(&nans[static_cast<std::size_t>(rank)][i], &value, sizeof value);
            }
          for (const bool first : {false, true}) {
            const Reduction reduction{.type = DataType::float32, .incoming_first = first};
            const Bytes& mine = nans[static_cast<std::size_t>(m.rank())];
            const Bytes& theirs = nans[static_cast<std::size_t>(1 - m.rank())];
            const Bytes found = exchange_and_fold(m, reduction, mine, true, random);
            m.t.expect(found == folded(reduction, mine, theirs),
                       "the bits that the kernel gives in that order");
          }
        }) == "");
}

TEST_CASE("R5: a folded work and a plain one follow each other on one link") {
  CHECK(run_world(2, [](Member& m) {
          test::Random random(5);
          for (std::uint64_t round = 0; round < 200; ++round) {
            check_reduction(m, {.type = DataType::int16, .op = ReduceOp::sum}, 1 + round % 50, random);
            m.exchange(1 - m.rank(), round);
          }
        }) == "");
}

}  // namespace
}  // namespace rondel::conformance
