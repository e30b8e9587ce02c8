// SPDX-License-Identifier: Apache-2.0
// The door to the TCP transport: always usable where sockets are. Owns the listener that its endpoints share,
// which starts with the first of them. One driver thread.
#pragma once

#include <memory>

#include "lib/auth.h"
#include "lib/config.h"
#include "transports/transport.h"

namespace rondel::tcp {

std::unique_ptr<Transport> make_transport(const Config& config, const Secret& secret);

}  // namespace rondel::tcp
