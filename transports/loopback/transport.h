// SPDX-License-Identifier: Apache-2.0
// The reference backend: ranks are threads of one process and copy straight out of one another's buffers.
// Written to be read first; docs/adding-a-transport.md walks through it. Not tuned, starts no thread, opens
// no socket.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace rondel::loopback {

/// Where the endpoints of one test or job meet. Shared by their transports, any thread.
class World;
std::shared_ptr<World> make_world();

std::unique_ptr<Transport> make_transport(std::shared_ptr<World> world);
/// In the one world that belongs to this process.
std::unique_ptr<Transport> make_transport();

}  // namespace rondel::loopback
