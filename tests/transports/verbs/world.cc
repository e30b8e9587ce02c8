// SPDX-License-Identifier: Apache-2.0
#include "tests/transports/verbs/world.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "transports/reach.h"

namespace rondel::verbs::test {

OneRank open_rank(const Secret& secret, Rank rank, const Config& config, const Result<VerbsLibrary>& library,
                  Rank size) {
  OneRank one;
  one.transport = make_transport_on(library, config, secret);
  EndpointOptions options;
  options.rank = rank;
  options.size = size;
  options.single_host = true;
  options.hosts.assign(static_cast<std::size_t>(size), "here");
  auto opened = one.transport->open(options);
  if (!opened.ok()) throw std::runtime_error(opened.status().text());
  one.endpoint = *std::move(opened);
  return one;
}

std::array<Status, 2> connect_pair(Endpoint& zero, Endpoint& one, Deadline deadline) {
  const std::vector<Bytes> addresses{zero.address(), one.address()};
  std::array<Status, 2> statuses;
  const Rank first = 0;
  const Rank second = 1;
  std::thread other([&] { statuses[1] = one.connect(addresses, std::span(&first, 1), deadline); });
  statuses[0] = zero.connect(addresses, std::span(&second, 1), deadline);
  other.join();
  return statuses;
}

UniqueFd call(const Endpoint& endpoint) {
  const SocketAddress address = decode_reach(endpoint.address())->sockets.at(0);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  std::memcpy(&to.sin_addr, address.ip.bytes.data(), 4);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    throw std::runtime_error("can not connect to an endpoint");
  return socket;
}

PairOfRanks::PairOfRanks(const std::array<Config, 2>& configs, const Result<VerbsLibrary>& library) {
  const auto secret = Secret::generate();
  for (Rank rank = 0; rank < 2; ++rank)
    ranks_[static_cast<std::size_t>(rank)] =
        open_rank(*secret, rank, configs[static_cast<std::size_t>(rank)], library);
  for (const Status& status : connect_pair(zero(), one(), Deadline::in(std::chrono::seconds(10))))
    if (!status.ok()) throw std::runtime_error(status.text());
}

Buffer::Buffer(Endpoint& endpoint, std::size_t size) : bytes(size) {
  auto made = endpoint.register_memory({bytes.data(), size, MemoryKind::host});
  if (!made.ok()) throw std::runtime_error(made.status().text());
  region = *std::move(made);
}

std::string PairOfRanks::send(std::size_t bytes) {
  Buffer out(zero(), bytes);
  Buffer in(one(), bytes);
  for (std::size_t i = 0; i < bytes; ++i) out.bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  Completion done;
  done.arm(2);
  const Slice source = out.all();
  const Slice target = in.all();
  const Work send{.verb = Verb::send, .peer = 1, .local = {&source, 1}, .done = &done};
  const Work recv{.verb = Verb::recv, .peer = 0, .local = {&target, 1}, .done = &done};
  if (const Status posted = one().post({&recv, 1}, {}); !posted.ok()) return posted.text();
  if (const Status posted = zero().post({&send, 1}, {}); !posted.ok()) return posted.text();
  const Deadline deadline = Deadline::in(std::chrono::seconds(10));
  while (!done.done()) {
    for (Endpoint* endpoint : {&zero(), &one()}) {
      const auto moved = endpoint->progress(std::chrono::nanoseconds::zero());
      if (!moved.ok()) {
        zero().abort(Code::aborted);  // their works end before their buffers
        one().abort(Code::aborted);
        return moved.status().text();
      }
    }
    if (deadline.passed()) throw std::runtime_error("the works do not end");
  }
  return in.bytes == out.bytes ? "" : "other bytes arrived";
}

Status PairOfRanks::failure_of_zero() {
  const Deadline deadline = Deadline::in(std::chrono::seconds(1));
  while (zero().failure().ok() && !deadline.passed()) (void)zero().progress(std::chrono::milliseconds(10));
  return zero().failure();
}

}  // namespace rondel::verbs::test
