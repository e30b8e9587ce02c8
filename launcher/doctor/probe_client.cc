// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/probe_client.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/doctor/probe_wire.h"
#include "lib/deadline.h"
#include "lib/service_thread.h"
#include "lib/store/dial.h"
#include "lib/store/socket.h"

namespace rondel::doctor {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::size_t kMostAtOnce = 64;
constexpr std::size_t kMostRoundTrips = 200;
constexpr milliseconds kRoundTripTime{60};
constexpr std::size_t kBlockBytes = 256 * 1024;
constexpr const char* kWrongHost = "another host answers there";

void attempt(agent::Attempt& one, const Secret& secret, Deadline deadline) {
  const auto dialled =
      store::dial_once(one.address, secret, one.store ? store::kStoreRole : kReachRole, deadline);
  if (!dialled.ok()) {
    one.why_not = dialled.status().failure().cause;
  } else if (one.store ? is_any_host(dialled->peer_payload) : !is_host(dialled->peer_payload, one.host)) {
    one.why_not = kWrongHost;
  } else {
    one.reached = true;
  }
}

/// In the order in which they are to be tried: the first address of every target, the second, ...
std::vector<agent::Attempt> attempts_of(const agent::Reach& order) {
  std::vector<agent::Attempt> attempts;
  std::size_t most = 0;
  for (const agent::ProbeTarget& target : order.targets) most = std::max(most, target.addresses.size());
  for (std::size_t round = 0; round < most; ++round)
    for (const agent::ProbeTarget& target : order.targets)
      if (round < target.addresses.size())
        attempts.push_back({.host = target.host,
                            .store = target.store,
                            .address = target.addresses[round],
                            .reached = false,
                            .why_not = {}});
  return attempts;
}

std::uint32_t path_mtu_of(int fd) {
  sockaddr_storage address{};
  socklen_t address_bytes = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &address_bytes) != 0) return 0;
  const bool v6 = address.ss_family == AF_INET6;
  int mtu = 0;
  socklen_t bytes = sizeof mtu;
  const int done = ::getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &bytes);
  return done == 0 && mtu > 0 ? static_cast<std::uint32_t>(mtu) : 0;
}

Result<UniqueFd> connect_for(const agent::Measure& order, const Secret& secret, const char* role,
                             Deadline deadline) {
  auto dialled = store::dial_once(order.address, secret, role, deadline);
  if (!dialled.ok()) return std::move(dialled).status();
  if (!is_host(dialled->peer_payload, order.host)) return Status(Code::refused, kWrongHost);
  return std::move(dialled->fd);
}

Status receive_all(int fd, std::span<std::byte> into, Deadline deadline) {
  while (!into.empty()) {
    const auto got = store::receive_some(fd, into, deadline);
    if (!got.ok()) return got.status();
    into = into.subspan(*got);
  }
  return {};
}

/// The median of some round trips of 8 bytes.
Result<std::uint64_t> round_trip(int fd, Deadline deadline) {
  std::vector<nanoseconds> times;
  const Deadline enough = Deadline::in(kRoundTripTime).or_before(deadline);
  while (times.empty() || (times.size() < kMostRoundTrips && !enough.passed())) {
    std::array<std::byte, 8> word{};
    const auto began = Clock::now();
    RONDEL_TRY(store::send_all(fd, word, deadline));
    RONDEL_TRY(receive_all(fd, word, deadline));
    times.push_back(Clock::now() - began);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<std::uint64_t>(middle->count());
}

/// Sends for the order's time and adds what the other side counted.
Status send_bulk(int fd, milliseconds time, Deadline deadline, agent::Measured& result) {
  const std::vector<std::byte> block(kBlockBytes);
  // What waits here at the end must pass too before the answer comes; on a slow way that is no loss.
  constexpr int kMostWaiting = 128 * 1024;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMostWaiting, sizeof kMostWaiting);
  for (const Deadline stop = Deadline::in(time); !stop.passed();) {
    const ssize_t sent = ::send(fd, block.data(), block.size(), MSG_NOSIGNAL);
    if (sent >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return system_failure(Code::unavailable, "sending", errno);
    const auto ready = store::await_events(fd, POLLOUT, stop.or_before(deadline));
    if (!ready.ok()) return ready.status();
  }
  ::shutdown(fd, SHUT_WR);
  std::array<std::byte, kSinkReplyBytes> reply{};
  RONDEL_TRY(receive_all(fd, reply, deadline));
  wire::Reader reader(reply);
  result.bytes = reader.number<std::uint64_t>();
  result.bulk_ns = reader.number<std::uint64_t>();
  return {};
}

Status measure_into(agent::Measured& result, const agent::Measure& order, const Secret& secret) {
  const Deadline deadline = Deadline::in(order.limit);
  auto small = connect_for(order, secret, kEchoRole, deadline);
  if (!small.ok()) return std::move(small).status();
  const auto time = round_trip(small->get(), deadline);
  if (!time.ok()) return time.status();
  result.round_trip_ns = *time;
  auto large = connect_for(order, secret, kSinkRole, deadline);
  if (!large.ok()) return std::move(large).status();
  result.path_mtu = path_mtu_of(small->get());
  return send_bulk(large->get(), order.time, deadline, result);
}

}  // namespace

agent::Reached reach_all(const agent::Reach& order, const Secret& secret, std::size_t at_once) {
  agent::Reached result{attempts_of(order)};
  const Deadline deadline = Deadline::in(order.limit);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    // Pairs with nothing: each attempt has one thread, and join() shows the results.
    for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < result.attempts.size();
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      agent::Attempt& one = result.attempts[i];
      if (deadline.passed())
        one.why_not = kNoTime;
      else
        attempt(one, secret, Deadline::in(order.patience).or_before(deadline));
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t wanted = std::min({at_once, kMostAtOnce, result.attempts.size()});
  while (helpers.size() + 1 < wanted) {
    auto helper = start_service("probing other hosts", work);
    if (!helper.ok()) break;  // fewer at a time, then
    helpers.push_back(*std::move(helper));
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return result;
}

agent::Measured measure(const agent::Measure& order, const Secret& secret) {
  agent::Measured result;
  result.host = order.host;
  result.why_not = measure_into(result, order, secret).failure().cause;
  return result;
}

}  // namespace rondel::doctor
