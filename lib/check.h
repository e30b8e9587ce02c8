// SPDX-License-Identifier: Apache-2.0
// check(): a broken invariant ends the process with the place and the sentence. For bugs of ours only, never
// for input, network or hardware. Any thread.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace rondel {

// The place comes from built-ins that both compilers know; clang 14 has no std::source_location.
inline void check(bool holds, const char* invariant, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "rondel: broken invariant: %s (%s:%d)\n", invariant, file, line);
  std::abort();
}

}  // namespace rondel
