// SPDX-License-Identifier: Apache-2.0
// The door to the verbs transport: usable where libibverbs and an active RDMA port are. Owns the device that
// its endpoints share, which is opened with the first of them. One driver thread.
#pragma once

#include <memory>

#include "lib/auth.h"
#include "lib/config.h"
#include "transports/transport.h"

namespace rondel::verbs {

std::unique_ptr<Transport> make_transport(const Config& config, const Secret& secret);

}  // namespace rondel::verbs
