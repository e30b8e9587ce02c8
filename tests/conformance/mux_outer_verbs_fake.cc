// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/mux_outer.h"
#include "tests/support/fake_verbs.h"
#include "transports/verbs/transport_on.h"

namespace rondel::conformance {

std::unique_ptr<Transport> make_outer(const Config& config, const Secret& secret) {
  static const test::FakeVerbs kFabric;
  return verbs::make_transport_on(test::FakeVerbs::table(), config, secret);
}

bool outer_connects_processes() { return false; }

}  // namespace rondel::conformance
