// SPDX-License-Identifier: Apache-2.0
// main() of a conformance program: exit code 77 and the reason when the backend can not be used here.
#define CATCH_CONFIG_RUNNER
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/conformance/backend.h"

int main(int argc, char* argv[]) {
  constexpr int kSkipped = 77;
  const auto transport = rondel::conformance::make_backend()->transport_for(0);
  const rondel::Probe probe = transport->probe();
  if (!probe.usable) {
    fmt::print(stderr, "skipped: {} can not be used here: {}\n", transport->name(), probe.why_not);
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}
