// SPDX-License-Identifier: Apache-2.0
#include "tests/transports/shm/world.h"

#include <poll.h>

#include <fstream>
#include <stdexcept>
#include <thread>

namespace rondel::shm::test {

std::unique_ptr<Endpoint> open_rank(Rank rank, Rank size, const EndpointPolicy& policy) {
  EndpointOptions options;
  options.rank = rank;
  options.size = size;
  options.single_host = true;
  options.hosts.assign(static_cast<std::size_t>(size), "here");
  auto opened = ShmEndpoint::open(options, policy);
  if (!opened.ok()) throw std::runtime_error(opened.status().text());
  return *std::move(opened);
}

std::vector<Status> connect_both(Endpoint& zero, Endpoint& one, Deadline deadline) {
  const std::vector<Bytes> addresses{zero.address(), one.address()};
  std::vector<Status> statuses(2);
  const Rank first = 0, second = 1;
  std::thread other([&] { statuses[1] = one.connect(addresses, std::span(&first, 1), deadline); });
  statuses[0] = zero.connect(addresses, std::span(&second, 1), deadline);
  other.join();
  return statuses;
}

Pair connected_pair(const EndpointPolicy& policy) {
  Pair pair{open_rank(0, 2, policy), open_rank(1, 2, policy)};
  for (const Status& status : connect_both(*pair.zero, *pair.one, Deadline::in(std::chrono::seconds(20))))
    if (!status.ok()) throw std::runtime_error(status.text());
  return pair;
}

void fill(std::span<std::byte> bytes, unsigned salt) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(salt + i * 31 + i / 251);
}

bool holds(std::span<const std::byte> bytes, unsigned salt) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != static_cast<std::byte>(salt + i * 31 + i / 251)) return false;
  return true;
}

std::string transfer(Pair& pair, MemorySpan from, MemorySpan to, Verb verb, Wait wait) {
  const auto source = pair.zero->register_memory(from), target = pair.one->register_memory(to);
  const Slice out{source->get(), 0, from.bytes}, in{target->get(), 0, to.bytes};
  Completion done;
  done.arm(2);
  const Work send{.verb = Verb::send, .peer = 1, .local = {&out, 1}, .done = &done};
  const Work receive{.verb = verb,
                     .peer = 0,
                     .local = {&in, 1},
                     .reduction = {.type = DataType::uint8, .op = ReduceOp::sum},
                     .done = &done};
  if (const Status posted = pair.zero->post({&send, 1}, {}); !posted.ok()) return posted.text();
  if (const Status posted = pair.one->post({&receive, 1}, {}); !posted.ok()) return posted.text();
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  while (!done.done()) {
    for (Endpoint* endpoint : {pair.zero.get(), pair.one.get()})
      if (const auto moved = endpoint->progress(std::chrono::nanoseconds::zero()); !moved.ok())
        return moved.status().text();
    if (wait == Wait::descriptors && !done.done()) {
      pollfd ready[] = {{pair.zero->wait_descriptor(), POLLIN, 0}, {pair.one->wait_descriptor(), POLLIN, 0}};
      if (::poll(ready, 2, deadline.left_ms()) <= 0) return "neither turned readable";
    }
    if (deadline.passed()) return "not done in time";
  }
  return done.code() == Code::ok ? std::string() : std::string(name_of(done.code()));
}

std::size_t mapped_memfds() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("/memfd:") != std::string::npos ? 1 : 0;
  return count;
}

}  // namespace rondel::shm::test
