// SPDX-License-Identifier: Apache-2.0
// The mux: two transports as one. Ranks of one place (in practice: of one host) reach each other by the inner
// one, all others by the outer one. Which ranks share a place is settled before an endpoint is opened
// (select, EndpointOptions::places; when that is empty, every rank is alone).
#pragma once

#include <chrono>
#include <memory>

#include "transports/transport.h"

namespace rondel::mux {

/// "inner+outer". Both outlive it and what it opens. `spin`: how long its endpoints poll before they sleep.
std::unique_ptr<Transport> make_transport(Transport& inner, Transport& outer, std::chrono::nanoseconds spin);

}  // namespace rondel::mux
