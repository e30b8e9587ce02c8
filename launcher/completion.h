// SPDX-License-Identifier: Apache-2.0
// The completion script for bash, made from the table of options that the program itself works from. Pure.
#pragma once

#include <string>

namespace rondel {

std::string bash_completion();

}  // namespace rondel
