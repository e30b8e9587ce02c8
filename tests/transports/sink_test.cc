// SPDX-License-Identifier: Apache-2.0
// Incoming bytes land and fold right in whatever pieces they come.
#include "transports/sink.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "tests/support/seed.h"

using rondel::DataType;
using rondel::MemorySpan;
using rondel::ReduceOp;
using rondel::Registration;
using rondel::Sink;
using rondel::Slice;
using rondel::Verb;
using rondel::Work;

namespace {

std::vector<std::byte> iota_bytes(std::size_t count, unsigned start) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(start + i * 7);
  return bytes;
}

/// Cuts [0, bytes) of a region at random places; some slices are empty.
std::vector<Slice> cut(const Registration& region, std::size_t bytes, rondel::test::Random& random) {
  std::vector<Slice> slices;
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t length = std::min<std::size_t>(random.below(23), bytes - at);
    slices.push_back({&region, at, length});
    at += length;
  }
  return slices;
}

void feed(Sink& sink, std::span<const std::byte> bytes, rondel::test::Random& random) {
  while (!bytes.empty()) {
    const std::size_t piece = std::min<std::size_t>(1 + random.below(19), bytes.size());
    sink.take(bytes.first(piece));
    bytes = bytes.subspan(piece);
  }
}

}  // namespace

TEST_CASE("a recv copies into slices cut anywhere, from pieces cut anywhere") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 200; ++round) {
    const std::size_t bytes = 1 + random.below(300);
    std::vector<std::byte> home(bytes);
    const Registration region(MemorySpan{home.data(), bytes});
    const auto slices = cut(region, bytes, random);
    Work work;
    work.verb = Verb::recv;
    work.local = slices;
    Sink sink;
    sink.reset(work);
    const auto incoming = iota_bytes(bytes, static_cast<unsigned>(round));
    feed(sink, incoming, random);
    CHECK(sink.complete());
    CHECK(home == incoming);
  }
}

TEST_CASE("a recv_reduce folds with another first operand, both cut anywhere, elements across every border") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 200; ++round) {
    const std::size_t elements = 1 + random.below(80);
    std::vector<std::int64_t> other(elements), home(elements, -1), incoming(elements), wanted(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      other[i] = static_cast<std::int64_t>(random.next() >> 3);
      incoming[i] = static_cast<std::int64_t>(random.next() >> 3);
      wanted[i] = other[i] + incoming[i];
    }
    const Registration to(MemorySpan{reinterpret_cast<std::byte*>(home.data()), elements * 8});
    const Registration from(MemorySpan{reinterpret_cast<std::byte*>(other.data()), elements * 8});
    const auto local = cut(to, elements * 8, random);
    const auto first = cut(from, elements * 8, random);
    Work work;
    work.verb = Verb::recv_reduce;
    work.local = local;
    work.other = round % 2 == 0 ? std::span<const Slice>(first) : std::span<const Slice>();
    work.reduction = {DataType::int64, ReduceOp::sum, 0.5F, round % 3 == 0};
    if (work.other.empty()) home = other;
    Sink sink;
    sink.reset(work);
    feed(sink, std::as_bytes(std::span(incoming)), random);
    CHECK(sink.complete());
    CHECK(home == wanted);
  }
}

TEST_CASE("a sink is as good as new for its next work") {
  rondel::test::Random random(rondel::test::test_seed());
  Sink sink;
  for (std::size_t elements = 1; elements < 40; ++elements) {
    std::vector<std::uint16_t> home(elements, 5);
    const Registration region(MemorySpan{reinterpret_cast<std::byte*>(home.data()), elements * 2});
    const Slice slice{&region, 0, elements * 2};
    Work work;
    work.verb = elements % 2 == 0 ? Verb::recv : Verb::recv_reduce;
    work.local = {&slice, 1};
    work.reduction = {DataType::int16, ReduceOp::sum, 0.5F, false};
    sink.reset(work);
    CHECK(sink.total_bytes() == elements * 2);
    const std::vector<std::uint16_t> incoming(elements, 2);
    feed(sink, std::as_bytes(std::span(incoming)), random);
    CHECK(home == std::vector<std::uint16_t>(elements, elements % 2 == 0 ? 2 : 7));
  }
}
