// SPDX-License-Identifier: Apache-2.0
// What a work costs on the polled path, for the tests on the device in memory and on a real one: pieces must
// cost neither memory nor system calls.
#pragma once

#include <cstdint>

#include "tests/support/system_calls.h"
#include "tests/transports/verbs/world.h"

namespace rondel::verbs::test {

struct PolledCosts {
  rondel::test::SystemCalls calls;
  std::uint64_t allocations = 0;  ///< by operator new, what the device in memory needs for itself left out
  std::uint64_t doorbells = 0;    ///< of both ranks
  std::uint64_t requests = 0;     ///< of both ranks
  std::uint64_t looks = 0;        ///< how often one thread may have looked at the links in this time
};

/// Two ranks, driven by one thread that never sleeps, send 16 MiB once, into place or into a sum, over links
/// that have done so before. The exit code of `calls` is 0 if that went well.
PolledCosts costs_of_polling(const Result<VerbsLibrary>& library, Verb receive);

/// FakeVerbs, whose allocations are not counted.
VerbsLibrary uncounted_fake();

/// Checks that there is nothing but doorbells, where they are calls, and looks.
void check(const PolledCosts& costs, bool doorbells_are_calls);

}  // namespace rondel::verbs::test
