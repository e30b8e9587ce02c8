// SPDX-License-Identifier: Apache-2.0
// What was found as one page for people: a row for each host, the ways between them, what is wrong and how it
// is mended. Pure; printable ASCII only, whatever a host said of itself.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "launcher/doctor/diagnosis.h"
#include "launcher/doctor/findings.h"

namespace rondel::doctor {

/// Lines of `width` characters at most, where words allow it.
std::string page(const Findings& findings, std::span<const Problem> problems, std::size_t width);

/// `text` in lines of at most `width`, the second and later ones indented.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace rondel::doctor
