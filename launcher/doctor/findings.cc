// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/findings.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondel::doctor {
namespace {

template <class Fits>
Path path_of(const std::vector<agent::Attempt>& attempts, const Fits& fits) {
  Path path;
  for (const agent::Attempt& one : attempts) {
    if (!fits(one)) continue;
    if (one.reached && path.reached == nullptr) path.reached = &one;
    if (!one.reached && path.failed == nullptr) path.failed = &one;
  }
  return path;
}

}  // namespace

Path path_between(const Findings& findings, std::size_t from, std::size_t to) {
  return path_of(findings.hosts[from].attempts,
                 [to](const agent::Attempt& one) { return !one.store && one.host == to; });
}

Path path_to_store(const HostFindings& host) {
  return path_of(host.attempts, [](const agent::Attempt& one) { return one.store; });
}

const MeasuredPair* measured_between(const Findings& findings, std::size_t from, std::size_t to) {
  const auto found =
      std::find_if(findings.measured.begin(), findings.measured.end(),
                   [from, to](const MeasuredPair& pair) { return pair.from == from && pair.to == to; });
  return found == findings.measured.end() ? nullptr : &*found;
}

const TransportFacts* transport_of(const HostFacts& facts, const std::string& name) {
  const auto found = std::find_if(facts.transports.begin(), facts.transports.end(),
                                  [&name](const TransportFacts& one) { return one.name == name; });
  return found == facts.transports.end() ? nullptr : &*found;
}

double bandwidth_of(const agent::Measured& measured) {
  if (measured.bytes == 0 || measured.bulk_ns == 0) return 0;
  return 8e9 * static_cast<double>(measured.bytes) / static_cast<double>(measured.bulk_ns);
}

std::string gigabits(double bits_per_second) {
  const double value = bits_per_second / 1e9;
  return value < 0.1 ? fmt::format("{:.2g}", value) : fmt::format("{:.2f}", value);
}

}  // namespace rondel::doctor
