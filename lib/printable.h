// SPDX-License-Identifier: Apache-2.0
// printable: words of others, a stranger's perhaps, made fit for an error text. Pure, any thread.
#pragma once

#include <algorithm>
#include <string>

namespace rondel {

/// One line of ASCII; '?' for everything else.
inline std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text;
}

}  // namespace rondel
