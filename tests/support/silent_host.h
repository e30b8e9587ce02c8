// SPDX-License-Identifier: Apache-2.0
// Makes connections look like those of a host that lost its power: they stay open, but the kernel takes in
// nothing that arrives, so that neither data nor probes are answered, not even by a reset. Linux only, needs
// no rights. Any thread.
#pragma once

#include <cstddef>

namespace rondel::test {

/// Silences one TCP connection for good, once what was sent on it has arrived: nothing more may be sent.
/// False when the kernel can not, or the peer does not take it in five seconds.
bool silence(int socket);

/// Silences all TCP connections of this process, or those whose own end is at `local_port`; how many there
/// were.
std::size_t silence_connections(int local_port = 0);

}  // namespace rondel::test
