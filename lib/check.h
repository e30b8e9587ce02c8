// SPDX-License-Identifier: Apache-2.0
// check(): a broken invariant ends the process with the place and the sentence. For bugs of ours only, never
// for input, network or hardware. Any thread.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace rondel {

inline void check(bool holds, const char* invariant,
                  std::source_location where = std::source_location::current()) {
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "rondel: broken invariant: %s (%s:%u)\n", invariant, where.file_name(),
               static_cast<unsigned>(where.line()));
  std::abort();
}

}  // namespace rondel
