// SPDX-License-Identifier: Apache-2.0
// What rides with every work of an operation so that ranks notice when they do not mean the same one, and how
// it is read back for people. Pure, any thread.
//
// Word 0, from the lowest bit: sequence 28, kind 4, type 4, operator 4, root 20, counted 1, purpose 2.
// Word 1: the count, or where `counted` a hash of the counts per rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ring/request.h"
#include "transports/endpoint.h"

namespace rondel {

/// Fields that say nothing about the collective (the operator of a broadcast, ...) count as equal.
Label make_label(const CollectiveRequest& request, std::uint64_t sequence);

/// The label of one pair's exchange in an all_to_all with counts: `count` elements from the one to the other.
Label make_pair_label(Label operation, std::uint64_t count);

std::uint64_t hash_of(std::span<const std::uint64_t> counts);

/// "allreduce #17 of 1024 float32 sum"
std::string describe(const Label& label);

/// One sentence that names both ranks and what each called, the lower rank first.
std::string describe(const LabelMismatch& mismatch, Rank rank);

}  // namespace rondel
