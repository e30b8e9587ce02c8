// SPDX-License-Identifier: Apache-2.0
// What was found, and what is wrong, as JSON for programs. Pure; any thread.
#pragma once

#include <span>
#include <string>

#include "launcher/doctor/diagnosis.h"
#include "launcher/doctor/findings.h"

namespace rondel::doctor {

/// One object, with a line break at its end.
std::string report_json(const Findings& findings, std::span<const Problem> problems);

}  // namespace rondel::doctor
