// SPDX-License-Identifier: Apache-2.0
// The manual pages in roff, made from the same tables that the program itself works from. Pure.
#pragma once

#include <string>

namespace rondel {

/// rondelrun(1)
std::string launcher_man_page(const std::string& version);
/// rondel-config(7)
std::string config_man_page(const std::string& version);

}  // namespace rondel
