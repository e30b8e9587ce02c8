// SPDX-License-Identifier: Apache-2.0
// The transport between places in a conformance program of mux: one file for each that is tested.
#pragma once

#include <memory>

#include "lib/auth.h"
#include "lib/config.h"
#include "transports/transport.h"

namespace rondel::conformance {

std::unique_ptr<Transport> make_outer(const Config& config, const Secret& secret);
/// Whether it connects processes; else it lives in the memory of one.
bool outer_connects_processes();

}  // namespace rondel::conformance
