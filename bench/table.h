// SPDX-License-Identifier: Apache-2.0
// The table on rank 0's standard output, in nccl-tests' columns, so that what reads theirs reads ours.
// Returns text; writes nothing itself. Pure.
#pragma once

#include <span>
#include <string>

#include "bench/measurement.h"
#include "bench/options.h"

namespace rondel::bench {

/// Comment lines that say what runs where, then the column heads.
std::string table_head(const Options& options, Rank ranks, std::string_view transport,
                       std::string_view version);
std::string table_row(const Options& options, const Row& row);
/// Sum of wrong elements and mean bus bandwidth.
std::string table_foot(const Options& options, std::span<const Row> rows);

/// Over all rows; nothing was verified counts as none wrong.
std::int64_t wrong_elements(std::span<const Row> rows);

}  // namespace rondel::bench
