// SPDX-License-Identifier: Apache-2.0
// What is wrong, made of what was found: each problem in words, with what to do about it. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/findings.h"

namespace rondel::doctor {

enum class Severity {
  error,   ///< a job would fail, or not start
  warning  ///< a job would run, maybe badly
};

struct Problem {
  Severity severity = Severity::warning;
  std::vector<std::string> hosts;  ///< labels; empty: the launcher itself
  std::string words;               ///< names the hosts too
  std::string fix;
};

/// Errors first.
std::vector<Problem> diagnose(const Findings& findings);

// Its parts; their words name the hosts only where they are about several.
std::vector<Problem> problems_of_host(const Findings& findings, const HostFindings& host);
std::vector<Problem> problems_of_pairs(const Findings& findings);
std::vector<Problem> problems_of_speed(const Findings& findings);

}  // namespace rondel::doctor
