// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace rondel::doctor {
namespace {

constexpr std::size_t kMostRows = 16;     // of hosts
constexpr std::size_t kMostColumns = 12;  // of a table between hosts
constexpr std::size_t kMostNics = 4;      // of one host
constexpr std::size_t kLabelWidth = 24;

std::string ascii(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

std::string label_text(const std::string& label) {
  return label.size() <= kLabelWidth ? label : label.substr(0, kLabelWidth - 2) + "..";
}

std::string size_text(std::uint64_t bytes) {
  constexpr double kGiB = 1U << 30U, kMiB = 1U << 20U;
  const auto size = static_cast<double>(bytes);
  if (bytes == 0) return "none";
  if (size >= 10 * kGiB) return fmt::format("{:.0f} GiB", size / kGiB);
  return size >= kGiB ? fmt::format("{:.1f} GiB", size / kGiB) : fmt::format("{:.0f} MiB", size / kMiB);
}

std::string limit_text(const std::optional<std::uint64_t>& limit, bool bytes) {
  if (!limit) return "unlimited";
  return bytes ? (*limit < 1U << 20U ? fmt::format("{} KiB", *limit / 1024) : size_text(*limit))
               : std::to_string(*limit);
}

std::string clock_text(const HostFindings& host) {
  if (!host.clock) return "?";
  const double ms = static_cast<double>(host.clock->ahead_ns) / 1e6;
  if (std::abs(ms) >= 10'000) return fmt::format("{:+.0f} s", ms / 1000);
  // What is smaller than the way there is not known.
  if (std::abs(ms) <= static_cast<double>(host.clock->uncertain_ns) / 1e6) return "equal";
  return fmt::format("{:+.1f} ms", ms);
}

std::string rate_text(std::int64_t mbit_s) {
  return mbit_s >= 1000 ? fmt::format("{:g} Gbit/s", static_cast<double>(mbit_s) / 1000)
                        : fmt::format("{} Mbit/s", mbit_s);
}

std::string count_text(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

class Page {
 public:
  Page(const Findings& findings, std::span<const Problem> problems, std::size_t width)
      : findings_(findings), problems_(problems), width_(std::max<std::size_t>(width, 40)) {
    choose_rows();
  }

  std::string text() {
    line(fmt::format("rondelrun doctor {}: {}, {}, {:.1f} s", findings_.version,
                     count_text(findings_.hosts.size(), "host"),
                     count_text(static_cast<std::size_t>(findings_.ranks), "rank"), findings_.seconds));
    hosts();
    networks();
    devices();
    transports();
    ways();
    verdict();
    return std::move(text_);
  }

 private:
  /// Those with problems before the others, when there are too many for a page.
  void choose_rows() {
    const std::size_t hosts = findings_.hosts.size();
    for (std::size_t i = 0; i < hosts; ++i) rows_.push_back(i);
    if (hosts <= kMostRows) return;
    std::stable_partition(rows_.begin(), rows_.end(), [this](std::size_t host) {
      return std::any_of(problems_.begin(), problems_.end(), [&](const Problem& problem) {
        return std::find(problem.hosts.begin(), problem.hosts.end(), findings_.hosts[host].label) !=
               problem.hosts.end();
      });
    });
    rows_.resize(kMostRows);
    std::sort(rows_.begin(), rows_.end());
  }

  void line(const std::string& text, std::size_t indent = 0) {
    text_ += wrapped(ascii(text), width_, indent) + "\n";
  }
  std::string numbered(std::size_t host) const {
    return fmt::format("{:>4} {:<{}}", host + 1, label_text(findings_.hosts[host].label), label_width());
  }
  std::size_t label_width() const {
    std::size_t width = 4;
    for (const std::size_t host : rows_)
      width = std::max(width, label_text(findings_.hosts[host].label).size());
    return width;
  }
  void raw_line(std::string text) {
    text = ascii(text);
    text.resize(text.find_last_not_of(' ') + 1);
    text_ += text + "\n";
  }

  void hosts() {
    text_ += "\n";
    raw_line(fmt::format("     {:<{}} {:>5} {:>9} {:>8} {:>8} {:>10} {:>9} {:>9}", "host", label_width(),
                         "ranks", "cores", "memory", "/dev/shm", "open files", "memlock", "clock"));
    for (const std::size_t row : rows_) {
      const HostFindings& host = findings_.hosts[row];
      if (!host.facts) {
        raw_line(fmt::format("{} {:>5} not examined", numbered(row), host.ranks));
        continue;
      }
      const HostFacts& facts = *host.facts;
      const std::string cores = facts.usable_cores == facts.machine_cores
                                    ? std::to_string(facts.usable_cores)
                                    : fmt::format("{} of {}", facts.usable_cores, facts.machine_cores);
      raw_line(fmt::format(
          "{} {:>5} {:>9} {:>8} {:>8} {:>10} {:>9} {:>9}", numbered(row), host.ranks, cores,
          size_text(facts.memory_bytes), size_text(facts.shm_bytes), limit_text(facts.open_files.soft, false),
          facts.may_lock ? "unlimited" : limit_text(facts.locked_bytes.soft, true), clock_text(host)));
    }
    if (rows_.size() < findings_.hosts.size())
      line(fmt::format("     and {} more; --json has them all", findings_.hosts.size() - rows_.size()));
  }

  static std::string nic_text(const NicFacts& nic) {
    std::string text = fmt::format("{} {}/{}", nic.name, nic.address, nic.prefix_bits);
    if (nic.mtu > 0) text += fmt::format(" mtu {}", nic.mtu);
    if (nic.speed_mbit_s) text += " " + rate_text(*nic.speed_mbit_s);
    if (nic.numa_node) text += fmt::format(" numa {}", *nic.numa_node);
    return text;
  }

  /// Addresses that somebody got through to stand first.
  std::vector<NicFacts> nics_in_order(std::size_t host) const {
    std::vector<NicFacts> nics;
    for (const NicFacts& nic : findings_.hosts[host].facts->nics)
      if (nic.chosen) nics.push_back(nic);
    std::stable_partition(nics.begin(), nics.end(), [this, host](const NicFacts& nic) {
      return std::any_of(findings_.hosts.begin(), findings_.hosts.end(), [&](const HostFindings& from) {
        return std::any_of(from.attempts.begin(), from.attempts.end(), [&](const agent::Attempt& one) {
          return one.reached && !one.store && one.host == host &&
                 one.address.find(nic.address + (nic.address.find(':') == std::string::npos ? ":" : "]")) !=
                     std::string::npos;
        });
      });
    });
    return nics;
  }

  void networks() {
    text_ += "\nnetworks that ranks may use\n";
    for (const std::size_t row : rows_) {
      if (!findings_.hosts[row].facts) continue;
      const auto nics = nics_in_order(row);
      std::string text = numbered(row);
      for (std::size_t i = 0; i < std::min(nics.size(), kMostNics); ++i)
        text += fmt::format("{} {}", i == 0 ? "" : ";", nic_text(nics[i]));
      if (nics.size() > kMostNics) text += fmt::format("; and {} more", nics.size() - kMostNics);
      if (nics.empty()) text += " none";
      line(text, 6 + label_width());
    }
  }

  static std::string devices_text(const HostFacts& facts) {
    std::string text;
    const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
    const auto near = [](const std::optional<int>& node) {
      return node ? fmt::format(" numa {}", *node) : std::string();
    };
    for (const RdmaFacts& one : facts.rdma)
      add(fmt::format("{} port {} {} {} {}, {}{}", one.device, one.port, one.state, one.link_layer, one.rate,
                      count_text(static_cast<std::size_t>(std::max(one.gids, 0)), "GID"),
                      near(one.numa_node)));
    for (const GpuFacts& one : facts.gpus)
      add(fmt::format("GPU {} {}{}", one.pci, one.model, near(one.numa_node)));
    if (facts.numa.size() > 1)
      for (const NumaFacts& one : facts.numa) add(fmt::format("numa {} cpus {}", one.node, one.cpus));
    return text;
  }

  void devices() {
    std::vector<std::pair<std::size_t, std::string>> texts;
    for (const std::size_t row : rows_)
      if (findings_.hosts[row].facts)
        if (std::string text = devices_text(*findings_.hosts[row].facts); !text.empty())
          texts.emplace_back(row, std::move(text));
    text_ += "\n";
    if (texts.empty()) return line("no RDMA devices, no GPUs");
    text_ += "devices\n";
    for (const auto& [row, text] : texts) line(numbered(row) + " " + text, 6 + label_width());
  }

  void transports() {
    std::string common;
    const HostFindings* first = nullptr;
    for (const HostFindings& host : findings_.hosts)
      if (host.facts && first == nullptr) first = &host;
    if (first == nullptr) return;
    for (const TransportFacts& one : first->facts->transports) {
      const bool everywhere =
          std::all_of(findings_.hosts.begin(), findings_.hosts.end(), [&one](const HostFindings& host) {
            const TransportFacts* other = host.facts ? transport_of(*host.facts, one.name) : &one;
            return other != nullptr && other->usable && other->domain == one.domain;
          });
      if (everywhere) common += (common.empty() ? "" : ", ") + one.name;
    }
    if (!common.empty()) line("transports that join all hosts: " + common, 4);
  }

  template <class Cell>
  void table(const std::string& title, const Cell& cell) {
    text_ += "\n" + title + "\n";
    std::string head(5 + label_width(), ' ');
    for (std::size_t to = 0; to < findings_.hosts.size(); ++to) head += fmt::format("{:>7}", to + 1);
    raw_line(head);
    for (std::size_t from = 0; from < findings_.hosts.size(); ++from) {
      std::string text = numbered(from);
      for (std::size_t to = 0; to < findings_.hosts.size(); ++to)
        text += fmt::format("{:>7}", from == to ? std::string("-") : cell(from, to));
      raw_line(text);
    }
  }

  /// What stands in place of a number.
  std::string state(std::size_t from, std::size_t to) const {
    const Path path = path_between(findings_, from, to);
    return !path.tried() ? "?" : path.reached == nullptr ? "FAILS" : "ok";
  }

  void ways() {
    const std::size_t hosts = findings_.hosts.size();
    if (hosts < 2) return;
    if (hosts > kMostColumns || 7 * hosts + 5 + label_width() > width_) return summary();
    table("round trip from row to column, microseconds", [this](std::size_t from, std::size_t to) {
      const MeasuredPair* pair = measured_between(findings_, from, to);
      if (pair == nullptr || pair->result.round_trip_ns == 0) return state(from, to);
      return fmt::format("{:.0f}", static_cast<double>(pair->result.round_trip_ns) / 1000);
    });
    table("bandwidth of one connection from row to column, Gbit/s", [this](std::size_t from, std::size_t to) {
      const MeasuredPair* pair = measured_between(findings_, from, to);
      if (pair == nullptr) return state(from, to);
      const double rate = bandwidth_of(pair->result);
      return rate > 0 ? gigabits(rate) : std::string("FAILS");
    });
    if (findings_.unmeasured > 0)
      line(fmt::format("not measured: {}, for want of time or of a host",
                       count_text(findings_.unmeasured, "pair")));
  }

  void summary() {
    std::size_t reached = 0, tried = 0;
    const std::size_t hosts = findings_.hosts.size();
    for (std::size_t from = 0; from < hosts; ++from)
      for (std::size_t to = 0; to < hosts; ++to) {
        if (from == to) continue;
        const Path path = path_between(findings_, from, to);
        tried += path.tried() ? 1 : 0;
        reached += path.reached != nullptr ? 1 : 0;
      }
    text_ += "\n";
    line(fmt::format("{} of {} pairs connect ({} were tried)", reached, hosts * (hosts - 1), tried));
    std::vector<double> times, rates;
    for (const MeasuredPair& pair : findings_.measured) {
      if (pair.result.round_trip_ns > 0)
        times.push_back(static_cast<double>(pair.result.round_trip_ns) / 1000);
      if (const double rate = bandwidth_of(pair.result); rate > 0) rates.push_back(rate / 1e9);
    }
    spread("round trip, microseconds", times);
    spread("bandwidth, Gbit/s", rates);
  }

  void spread(const std::string& what, std::vector<double> values) {
    if (values.empty()) return;
    std::sort(values.begin(), values.end());
    line(fmt::format("{} of {} measured pairs: least {:.4g}, median {:.4g}, most {:.4g}", what, values.size(),
                     values.front(), values[values.size() / 2], values.back()));
  }

  void verdict() {
    text_ += "\n";
    std::size_t errors = 0;
    for (const Problem& one : problems_) {
      const bool error = one.severity == Severity::error;
      errors += error ? 1 : 0;
      line(fmt::format("{} {}", error ? "ERROR  " : "warning", one.words), 8);
      line("        fix: " + one.fix, 13);
    }
    for (const std::string& note : findings_.notes) line("note    " + note, 8);
    const std::size_t warnings = problems_.size() - errors;
    if (errors + warnings == 0)
      line("All is well.");
    else
      line(fmt::format("{}, {}.", count_text(errors, "error"), count_text(warnings, "warning")));
    if (errors == 0 && !findings_.next.empty()) text_ += "next: " + ascii(findings_.next) + "\n";
  }

  const Findings& findings_;
  std::span<const Problem> problems_;
  std::size_t width_;
  std::vector<std::size_t> rows_;
  std::string text_;
};

}  // namespace

std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t at = 0, room = width;
  while (text.size() - at > room) {
    std::size_t end = text.rfind(' ', at + room);
    // A line that is nothing but its indentation is no progress.
    if (end == std::string::npos || end <= at || text.find_first_not_of(' ', at) >= end)
      end = text.find(' ', at + room);
    if (end == std::string::npos) break;
    out += text.substr(at, end - at) + "\n" + std::string(indent, ' ');
    at = std::min(text.find_first_not_of(' ', end), text.size());
    room = width > indent + 20 ? width - indent : 20;
  }
  return out + text.substr(at);
}

std::string page(const Findings& findings, std::span<const Problem> problems, std::size_t width) {
  return Page(findings, problems, width).text();
}

}  // namespace rondel::doctor
