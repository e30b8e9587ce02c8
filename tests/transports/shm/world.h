// SPDX-License-Identifier: Apache-2.0
// For the tests of the shm backend: connected endpoints of two ranks, as threads of this process, and words
// for what the tests do with them. Main thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transports/shm/endpoint.h"

namespace rondel::shm::test {

/// Opens the endpoint of `rank` of `size`; throws when it can not, with the reason.
std::unique_ptr<Endpoint> open_rank(Rank rank, Rank size = 2, const EndpointPolicy& policy = {});

struct Pair {
  std::unique_ptr<Endpoint> zero, one;
};
/// Two ranks that are connected.
Pair connected_pair(const EndpointPolicy& policy = {});
/// Connects rank 0 to rank 1 from two threads; both statuses.
std::vector<Status> connect_both(Endpoint& zero, Endpoint& one, Deadline deadline);

/// Bytes that depend on `salt` and position.
void fill(std::span<std::byte> bytes, unsigned salt);
bool holds(std::span<const std::byte> bytes, unsigned salt);

enum class Wait { never, descriptors };  // where nothing can be done: try again, or poll(2)

/// Sends all of `from` from rank 0 and receives it in rank 1's `to`, both driven in turn; what went wrong, or
/// nothing.
std::string transfer(Pair& pair, MemorySpan from, MemorySpan to, Verb verb = Verb::recv,
                     Wait wait = Wait::never);

/// How many mappings of memfds this process has.
std::size_t mapped_memfds();

}  // namespace rondel::shm::test
