// SPDX-License-Identifier: Apache-2.0
// normalise: puts the command lines that people know from other launchers (-np 4, -hostfile=f, --np 4) into
// one form and finds where the program's own words begin. Pure; the meaning and type of a value are
// options.cc's business.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/status.h"

namespace rondel {

/// One way to write an option: "np" or "n". One letter is written with one dash, longer names with one or
/// two.
struct OptionSpelling {
  std::string name;
  std::string long_name;  ///< what the spelling becomes: "np"
  int values = 0;         ///< words that belong to it: 0, 1 or 2
  bool hidden = false;    ///< not for people: never what they meant
};

struct NormalisedArguments {
  std::vector<std::string> options;  ///< "--tag-output", "--np=4", "--mca=key value"
  std::vector<std::string> program;  ///< the program and its arguments, untouched; empty when there is none
};

/// The program begins at the first word that is no option and no option's value, or after "--".
/// invalid_argument: an unknown option (with the nearest known one), a missing value, a value where none
/// belongs.
Result<NormalisedArguments> normalise(std::span<const std::string> arguments,
                                      std::span<const OptionSpelling> spellings);

}  // namespace rondel
