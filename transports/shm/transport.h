// SPDX-License-Identifier: Apache-2.0
// The transport for ranks of one machine that can see one another's sockets: shared memory. Objects as in
// transports/transport.h.
#pragma once

#include <memory>

#include "lib/auth.h"
#include "lib/config.h"
#include "transports/transport.h"

namespace rondel::shm {

std::unique_ptr<Transport> make_transport(const Config& config, const Secret& secret);

}  // namespace rondel::shm
