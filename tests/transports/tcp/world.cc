// SPDX-License-Identifier: Apache-2.0
#include "tests/transports/tcp/world.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace rondel::tcp::test {

OneRank open_rank(const Secret& secret, Rank rank, Rank size, const Config& config) {
  OneRank one;
  one.transport = make_transport(config, secret);
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

SocketAddress reach_of(const Endpoint& endpoint) { return decode_reach(endpoint.address())->sockets.at(0); }

UniqueFd call(const SocketAddress& address) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  std::memcpy(&to.sin_addr, address.ip.bytes.data(), 4);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) socket.reset();
  return socket;
}

bool closed_by_peer(int socket, Deadline deadline) {
  std::array<char, 512> ignored;
  while (!deadline.passed()) {
    pollfd wanted{socket, POLLIN, 0};
    if (::poll(&wanted, 1, deadline.left_ms()) == 1 && ::recv(socket, ignored.data(), ignored.size(), 0) <= 0)
      return true;
  }
  return false;
}

std::vector<Status> connect_pair(Endpoint& zero, Endpoint& one, Deadline deadline) {
  const std::vector<Bytes> addresses{zero.address(), one.address()};
  std::vector<Status> statuses(2);
  const Rank first = 0;
  const Rank second = 1;
  std::thread other([&] { statuses[1] = one.connect(addresses, std::span(&first, 1), deadline); });
  statuses[0] = zero.connect(addresses, std::span(&second, 1), deadline);
  other.join();
  return statuses;
}

std::string exchange(Endpoint& zero, Endpoint& one, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 31 + i / 251);
  std::vector<std::byte> in(bytes);
  const Registration from(MemorySpan{out.data(), bytes});
  const Registration to(MemorySpan{in.data(), bytes});
  const Slice source{&from, 0, bytes};
  const Slice target{&to, 0, bytes};
  for (Endpoint* sender : {&zero, &one}) {
    Endpoint* receiver = sender == &zero ? &one : &zero;
    std::fill(in.begin(), in.end(), std::byte{0});
    Completion done;
    done.arm(2);
    Work send{Verb::send, sender == &zero ? 1 : 0, {&source, 1}, {}, {}, {}, &done};
    Work recv{Verb::recv, sender == &zero ? 0 : 1, {&target, 1}, {}, {}, {}, &done};
    if (const Status posted = sender->post({&send, 1}, {}); !posted.ok()) return posted.text();
    if (const Status posted = receiver->post({&recv, 1}, {}); !posted.ok()) return posted.text();
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    while (!done.done()) {
      for (Endpoint* each : {&zero, &one})
        if (const auto moved = each->progress({}); !moved.ok()) return moved.status().text();
      if (deadline.passed()) return "nothing moved for 20 s";
    }
    if (in != out) return "other bytes came than were sent";
  }
  return {};
}

}  // namespace rondel::tcp::test
