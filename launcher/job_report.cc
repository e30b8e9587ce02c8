// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_report.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>

namespace rondel {
namespace {

constexpr std::size_t kMostRows = 16;

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

/// Shells end with 128 and the number of the signal that ended their program.
std::string told_by_shell(int code) {
  const int signal = code - 128;
  if (signal <= 0 || ::sigabbrev_np(signal) == nullptr) return {};
  return fmt::format(" (as of {}{})", signal_name(signal), signal == SIGKILL ? ", maybe out of memory" : "");
}

/// First the rank that failed first, then by time of ending.
std::vector<Rank> report_order(const Supervisor& supervisor) {
  std::vector<Rank> order(supervisor.records().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Rank>(i);
  const auto key = [&supervisor](Rank rank) {
    const auto& record = supervisor.records()[static_cast<std::size_t>(rank)];
    return std::make_tuple(supervisor.first_failed() != rank, record.stopped, record.after, rank);
  };
  std::sort(order.begin(), order.end(), [&key](Rank a, Rank b) { return key(a) < key(b); });
  return order;
}

std::string seconds_text(std::chrono::milliseconds after) {
  return fmt::format("{:.1f}", static_cast<double>(after.count()) / 1000.0);
}

void add_error_lines(std::span<const std::string> error_lines, std::vector<std::string>& lines) {
  if (!error_lines.empty()) lines.emplace_back("the last lines of its standard error:");
  for (const std::string& line : error_lines) lines.push_back("    " + line);
}

}  // namespace

std::string ending_text(const Supervisor::Record& record) {
  if (record.never_started) return "never started";
  if (record.lost) return "lost with its host";
  if (!record.ending) return "still running";
  const Ending& ending = *record.ending;
  if (record.stopped)
    return fmt::format("stopped by launcher ({})", ending.signal != 0
                                                       ? signal_name(ending.signal)
                                                       : fmt::format("exit code {}", ending.code));
  if (ending.signal == 0) return fmt::format("exit code {}{}", ending.code, told_by_shell(ending.code));
  return fmt::format("killed by signal {} ({}){}", ending.signal, signal_name(ending.signal),
                     ending.signal == SIGKILL ? ", maybe out of memory" : "");
}

std::string text_of(std::span<const Rank> ranks) {
  constexpr std::size_t kMostNamed = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return ranks.size() > kMostNamed ? fmt::format("{} and {} more", text, ranks.size() - kMostNamed) : text;
}

std::vector<std::string> late_rank_report(Rank rank, const std::string& host,
                                          const Supervisor::Record& record,
                                          std::span<const std::string> error_lines) {
  std::vector<std::string> lines;
  if (error_lines.empty() && !record.ending) return lines;
  lines.push_back(fmt::format("rank {} on {}: {}", rank, host, ending_text(record)));
  add_error_lines(error_lines, lines);
  return lines;
}

std::vector<std::string> job_report(const Supervisor& supervisor, std::span<const RankProcess> processes,
                                    std::span<const std::string> error_lines) {
  const auto records = supervisor.records();
  std::vector<std::string> lines;
  if (const auto first = supervisor.first_failed()) {
    const auto& record = records[static_cast<std::size_t>(*first)];
    lines.push_back(fmt::format("rank {} failed first: {} after {} s", *first, ending_text(record),
                                seconds_text(record.after)));
    add_error_lines(error_lines, lines);
  }
  lines.push_back(fmt::format("{:>6}  {:<16} {:>8}  {:>8}  {}", "rank", "host", "pid", "seconds", "ended"));
  const auto order = report_order(supervisor);
  const std::size_t shown = std::min(order.size(), kMostRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto rank = static_cast<std::size_t>(order[i]);
    const RankProcess& process = processes[rank];
    lines.push_back(fmt::format("{:>6}  {:<16} {:>8}  {:>8}  {}", rank, process.host,
                                process.pid > 0 ? std::to_string(process.pid) : "-",
                                seconds_text(records[rank].after), ending_text(records[rank])));
  }
  if (shown < order.size()) lines.push_back(fmt::format("and {} more", order.size() - shown));
  return lines;
}

}  // namespace rondel
