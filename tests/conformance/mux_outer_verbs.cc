// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/mux_outer.h"
#include "transports/verbs/transport.h"

namespace rondel::conformance {

std::unique_ptr<Transport> make_outer(const Config& config, const Secret& secret) {
  return verbs::make_transport(config, secret);
}

bool outer_connects_processes() { return true; }

}  // namespace rondel::conformance
