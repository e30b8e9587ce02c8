// SPDX-License-Identifier: Apache-2.0
#include "bench/table.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <vector>

namespace rondel::bench {
namespace {

Options options_for(std::string_view collective) {
  Options options;
  options.collective = *find_collective(collective);
  return options;
}

Row row_with(std::int64_t wrong) {
  Row row;
  row.size_bytes = 1'048'576;
  row.count = 262'144;
  row.out_of_place.times.median_us = 123.456;
  row.out_of_place.algorithm_gb_per_s = 8.49;
  row.out_of_place.bus_gb_per_s = 4.25;
  row.out_of_place.wrong = wrong;
  row.in_place = row.out_of_place;
  row.in_place->times.median_us = 12345.6;
  return row;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST_CASE("a row has nccl-tests' columns") {
  CHECK(words_of(table_row(options_for("allreduce"), row_with(3))) ==
        std::vector<std::string>{"1048576", "262144", "float32", "sum", "-1", "123.5", "8.49", "4.25", "3",
                                 "12346", "8.49", "4.25", "3"});
}

TEST_CASE("what the transport counted is shown for each MiB, or each time where less was sent") {
  Options options = options_for("allreduce");
  Row row = row_with(0);
  row.out_of_place.effort = {.sent_bytes = 2 << 20, .counts = {{"doorbells", 5}}};
  row.in_place->effort = {.sent_bytes = 4, .counts = {{"doorbells", 3}}};
  CHECK(table_row(options, row).find('#') == std::string::npos);
  options.counters = true;
  const std::string text = table_row(options, row);
  CHECK(text.find("# out of place, rank 0, each time: 2097152 B sent; per MiB of that: doorbells 2.50\n") !=
        std::string::npos);
  CHECK(text.find("# in place, rank 0, each time: 4 B sent; doorbells 3.00\n") != std::string::npos);
}

TEST_CASE("what a collective has not is none, -1 or N/A") {
  Row row;
  row.out_of_place.times.median_us = 1.234;
  CHECK(words_of(table_row(options_for("barrier"), row)) ==
        std::vector<std::string>{"0", "0", "none", "none", "-1", "1.23", "0.00", "0.00", "N/A", "N/A", "N/A",
                                 "N/A", "N/A"});
  Options broadcast = options_for("broadcast");
  broadcast.root = 3;
  CHECK(words_of(table_row(broadcast, row_with(0)))[4] == "3");
}

TEST_CASE("heads and rows are equally wide") {
  const Options options = options_for("allreduce");
  std::istringstream head(table_head(options, 2, "tcp", "1.2.3"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(head, line);) {
    CHECK(line.front() == '#');
    lines.push_back(line);
  }
  const std::string row = table_row(options, row_with(0));
  CHECK(lines.back().size() == row.size() - 1);
  CHECK(lines[lines.size() - 2].size() == row.size() - 1);
  CHECK(lines.front() == "# rondel-bench 1.2.3 allreduce ranks 2 transport tcp");
}

TEST_CASE("the foot sums wrong elements and says when none were looked for") {
  Options options = options_for("allreduce");
  CHECK_THAT(table_foot(options, std::vector{row_with(0)}), Catch::Contains("values : 0 OK"));
  CHECK_THAT(table_foot(options, std::vector{row_with(1), row_with(2)}),
             Catch::Contains("values : 6 FAILED"));
  CHECK_THAT(table_foot(options, std::vector{row_with(0)}), Catch::Contains("bandwidth    : 4.2500"));
  options.checks = 0;
  CHECK_THAT(table_foot(options, std::vector{row_with(0)}), Catch::Contains("NOT CHECKED"));
}

}  // namespace
}  // namespace rondel::bench
