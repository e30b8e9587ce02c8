// SPDX-License-Identifier: Apache-2.0
#include "transports/batch.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

namespace rondel {
namespace {

// One valid work, to be broken in one place at a time.
struct Fixture {
  Bytes memory = Bytes(64);
  Registration region{{memory.data(), memory.size()}};
  Registration device{{memory.data(), memory.size(), MemoryKind::cuda}};
  std::vector<Slice> slices{{&region, 0, 32}, {&region, 32, 8}};
  Completion done;
  Capabilities capabilities;
  Work work{.verb = Verb::recv_reduce, .peer = 1, .local = slices, .done = &done};

  Status outcome() const { return validate({&work, 1}, capabilities); }
};

TEST_CASE_METHOD(Fixture, "a sound work passes") {
  CHECK(outcome().ok());
  work.other = slices;
  CHECK(outcome().ok());
  CHECK(validate({}, capabilities).ok());
}

TEST_CASE_METHOD(Fixture, "slices stay inside their region, without overflow") {
  for (const Slice& bad :
       {Slice{&region, 60, 5}, Slice{&region, 65, 0}, Slice{&region, 8, ~std::size_t{0}}}) {
    slices[1] = bad;
    CHECK(outcome().code() == Code::invalid_argument);
  }
  slices[1] = {&region, 64, 0};
  CHECK(outcome().ok());
}

TEST_CASE_METHOD(Fixture, "the text says which work is wrong, and how") {
  slices[1] = {&region, 60, 5};
  CHECK(outcome().text() == "work 1 of 1: a slice of 5 bytes at offset 60 leaves its region of 64 bytes");
}

TEST_CASE_METHOD(Fixture, "each rule has its refusal") {
  SECTION("no region") { slices[0].region = nullptr; }
  SECTION("no completion") { work.done = nullptr; }
  SECTION("too many slices") { capabilities.max_slices = 1; }
  SECTION("part of an element") { slices[1].bytes = 7; }
  SECTION("an operator that the type does not have") { work.reduction.op = ReduceOp::bit_or; }
  SECTION("another length of other") { work.other = std::span(slices).first(1); }
  SECTION("an other without a reduction") {
    work.verb = Verb::recv;
    work.other = slices;
  }
  CHECK(outcome().code() == Code::invalid_argument);
}

TEST_CASE_METHOD(Fixture, "memory must be of a kind that the transport reaches") {
  slices[0].region = &device;
  CHECK(outcome().code() == Code::unsupported);
  capabilities.cuda_memory = true;
  CHECK(outcome().ok());
  capabilities.host_memory = false;
  CHECK(outcome().code() == Code::unsupported);
}

}  // namespace
}  // namespace rondel
