// SPDX-License-Identifier: Apache-2.0
#include "bench/table.h"

#include <fmt/format.h>

namespace rondel::bench {
namespace {

/// Seven places with as many decimals as fit.
std::string time_cell(double us) { return fmt::format("{:8.{}f}", us, us >= 10'000 ? 0 : us >= 100 ? 1 : 2); }

std::string cells(const Measurement& m) {
  const std::string wrong = m.wrong ? fmt::format("{}", *m.wrong) : "N/A";
  return fmt::format(" {} {:7.2f} {:7.2f} {:>6}", time_cell(m.times.median_us), m.algorithm_gb_per_s,
                     m.bus_gb_per_s, wrong);
}

std::string no_cells() { return fmt::format(" {:>8} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A"); }

std::string effort_line(std::string_view placement, const Effort& effort) {
  constexpr double kMiB = 1 << 20;
  const bool large = effort.sent_bytes >= kMiB;
  std::string line = fmt::format("# {}, rank 0, each time: {:.0f} B sent", placement, effort.sent_bytes);
  if (effort.counts.empty()) return line + "; the transport counts nothing else\n";
  line += large ? "; per MiB of that:" : ";";
  for (const auto& [name, count] : effort.counts)
    line += fmt::format(" {} {:.2f}", name, large ? count / (effort.sent_bytes / kMiB) : count);
  return line + "\n";
}

/// Mean over all measurements with data, in and out of place alike.
double mean_bus_bandwidth(std::span<const Row> rows) {
  double sum = 0;
  int n = 0;
  for (const Row& row : rows) {
    sum += row.out_of_place.bus_gb_per_s + (row.in_place ? row.in_place->bus_gb_per_s : 0);
    n += row.in_place ? 2 : 1;
  }
  return n > 0 ? sum / n : 0;
}

}  // namespace

std::string table_head(const Options& options, Rank ranks, std::string_view transport,
                       std::string_view version) {
  std::string head = fmt::format("# rondel-bench {} {} ranks {} transport {}\n", version,
                                 options.collective->name, ranks, transport.empty() ? "none" : transport);
  head += "# time: median over iterations of the slowest rank's time\n#\n";
  head += fmt::format("# {:>69} {:>31}\n", "out-of-place", "in-place");
  constexpr std::string_view kHeads = " {:>8} {:>7} {:>7} {:>6}";
  head += fmt::format("#{:>11} {:>13} {:>9} {:>8} {:>5}", "size", "count", "type", "redop", "root");
  for (int i = 0; i < 2; ++i) head += fmt::format(fmt::runtime(kHeads), "time", "algbw", "busbw", "#wrong");
  head += fmt::format("\n#{:>11} {:>13} {:>9} {:>8} {:>5}", "(B)", "(elements)", "", "", "");
  for (int i = 0; i < 2; ++i) head += fmt::format(fmt::runtime(kHeads), "(us)", "(GB/s)", "(GB/s)", "");
  return head + "\n";
}

std::string table_row(const Options& options, const Row& row) {
  const Collective& collective = *options.collective;
  const std::string_view type = collective.has_data ? name_of(options.type) : "none";
  const std::string_view op = collective.reduces ? name_of(options.op) : "none";
  std::string text = fmt::format("{:12} {:13} {:>9} {:>8} {:5}{}{}\n", row.size_bytes, row.count, type, op,
                                 collective.has_root ? options.root : -1, cells(row.out_of_place),
                                 row.in_place ? cells(*row.in_place) : no_cells());
  if (!options.counters) return text;
  text += effort_line("out of place", row.out_of_place.effort);
  if (row.in_place) text += effort_line("in place", row.in_place->effort);
  return text;
}

std::string table_foot(const Options& options, std::span<const Row> rows) {
  const bool verified = options.checks > 0 && options.collective->has_data;
  const std::int64_t wrong = wrong_elements(rows);
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:.4f}\n#\n", wrong,
                     !verified   ? "NOT CHECKED"
                     : wrong > 0 ? "FAILED"
                                 : "OK",
                     mean_bus_bandwidth(rows));
}

std::int64_t wrong_elements(std::span<const Row> rows) {
  std::int64_t wrong = 0;
  for (const Row& row : rows)
    wrong += row.out_of_place.wrong.value_or(0) + (row.in_place ? row.in_place->wrong.value_or(0) : 0);
  return wrong;
}

}  // namespace rondel::bench
