// SPDX-License-Identifier: Apache-2.0
// visible: words that a user or a file gave, made fit for an error text: quoted, of bounded length, and
// without bytes that a terminal would act on. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondel {

/// `text` in double quotes. What is not printable ASCII becomes \t, \r, \n or \xNN; of a longer text only the
/// first `most_bytes` are shown, then "...".
std::string visible(std::string_view text, std::size_t most_bytes = 60);

/// `text` as one line: control characters become \t, \r, \n or \xNN, everything else stays.
std::string one_line(std::string_view text);

}  // namespace rondel
