// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/meeting_point.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "bindings/c/errors.h"
#include "lib/host_identity.h"
#include "lib/interfaces.h"
#include "lib/store/tcp_client.h"
#include "lib/unique_fd.h"
#include "lib/wire.h"

namespace rondel::c {
namespace {

// Layout: u32 magic, u16 version, secret[32], text address, zeros up to kMeetingPointBytes.
constexpr std::uint32_t kMagic = 0x64494452;  // "RDId"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kAddressLimit = kMeetingPointBytes - 4 - 2 - Secret::kBytes - 4;

/// How long one found address is tried before it is looked up again: soon at first, as what an earlier job
/// left behind is replaced soon, then twice as long each time, for networks that take longer.
constexpr std::chrono::milliseconds kFirstTry{100};
constexpr std::chrono::milliseconds kLongestTry{5000};
constexpr std::chrono::milliseconds kPause{50};

/// The source address the kernel would use towards `target`; nothing is sent.
std::string source_towards(int family, const sockaddr* target, socklen_t length) {
  const UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), target, length) != 0) return {};
  sockaddr_storage own{};
  socklen_t own_length = sizeof own;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_length) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* address =
      family == AF_INET ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&own)->sin_addr)
                        : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&own)->sin6_addr);
  return ::inet_ntop(family, address, text.data(), text.size()) == nullptr ? std::string() : text.data();
}

std::string default_route_source() {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(9);
  ::inet_pton(AF_INET, "192.0.2.1",
              &v4.sin_addr);  // a documentation address (RFC 5737): only the route matters
  std::string source = source_towards(AF_INET, reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  if (!source.empty()) return source;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(9);
  ::inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr);  // likewise (RFC 3849)
  return source_towards(AF_INET6, reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
}

}  // namespace

Result<Bytes> encode(const MeetingPoint& point) {
  if (point.address.size() > kAddressLimit)
    return Status(Code::invalid_argument,
                  fmt::format("the address \"{}\" of the meeting point is longer than {} bytes",
                              point.address, kAddressLimit),
                  "use a numeric address");
  wire::Writer writer;
  writer.number(kMagic).number(kVersion).raw(point.secret.bytes()).text(point.address);
  Bytes bytes = writer.take();
  bytes.resize(kMeetingPointBytes);
  return bytes;
}

Result<MeetingPoint> decode_meeting_point(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  const auto magic = reader.number<std::uint32_t>();
  const auto version = reader.number<std::uint16_t>();
  const auto secret = Secret::from_bytes(reader.raw(Secret::kBytes));
  std::string address = reader.text(kAddressLimit);
  if (bytes.size() != kMeetingPointBytes || magic != kMagic || !reader.good() || !secret.ok())
    return Status(Code::invalid_argument, "this is no unique id of Rondel's",
                  "hand the bytes of rondel_get_unique_id to every rank unchanged");
  if (version != kVersion)
    return Status(Code::refused,
                  fmt::format("the unique id has format {}, this library reads format {}", version, kVersion),
                  "load the same version of librondel.so on every rank");
  return MeetingPoint{std::move(address), *secret};
}

Result<HostedMeetingPoint> host_meeting_point(const Config& config, const Secret& secret,
                                              const std::string& bind_address, std::uint16_t port) {
  TcpServerOptions options;
  options.bind_address = bind_address;
  options.port = port;
  options.handshake_timeout = config.handshake_timeout;
  options.silence = config.silence_timeout;
  options.holder_rank = 0;
  options.holder_host = host_name();
  auto server = TcpServer::start(options, secret);
  if (!server.ok()) return std::move(server).status().with("serving the job's meeting point");
  MeetingPoint point{(*server)->address(), secret};
  return HostedMeetingPoint{std::move(point), std::move(server).value()};
}

Result<std::string> reachable_address(const std::string& wanted, bool one_host, const std::string& net) {
  if (!wanted.empty()) return wanted;
  if (one_host) return std::string("127.0.0.1");
  const auto filter = NetFilter::parse(net);
  RONDEL_TRY(filter);
  const auto interfaces = system_interfaces();
  RONDEL_TRY(interfaces);
  const auto chosen = filter->choose(*interfaces);
  RONDEL_TRY(chosen);
  const std::string usual = default_route_source();
  const auto has_usual = std::any_of(chosen->begin(), chosen->end(), [&usual](const Interface& interface) {
    return interface.address.text() == usual;
  });
  if (has_usual) return usual;
  return chosen->empty() ? std::string("127.0.0.1") : chosen->front().address.text();
}

std::string socket_text(const std::string& numeric_address, std::uint16_t port) {
  const bool v6 = numeric_address.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", numeric_address, port) : fmt::format("{}:{}", numeric_address, port);
}

Result<Joined> join_through(const Config& config, const Rendezvous& rendezvous, const std::string& key,
                            Deadline deadline) {
  Status last;
  for (auto patience = kFirstTry; last.ok() || !deadline.passed();
       patience = std::min(patience * 2, kLongestTry)) {
    auto value = rendezvous.get(key, deadline);
    if (!value.ok())
      return std::move(value).status().with(fmt::format("waiting for rank 0 to set \"{}\"", key));
    auto point = decode_meeting_point(*value);
    if (point.code() == Code::invalid_argument) {  // cut short by a crash: rank 0 will replace it
      last = Status(Code::unavailable,
                    fmt::format("the {} bytes of \"{}\" are no meeting point", value->size(), key));
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kPause, deadline.left()));
      continue;
    }
    RONDEL_TRY(point);
    auto store = connect_tcp_store(point->address, point->secret, Deadline::in(patience).or_before(deadline),
                                   config.silence_timeout);
    if (store.ok()) return Joined{std::move(point).value(), std::move(store).value()};
    last = std::move(store).status();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kPause, deadline.left()));
  }
  return with_hint(std::move(last).with("joining the meeting point that rank 0 keeps"),
                   "see that rank 0 runs: what was found may be of an earlier job");
}

}  // namespace rondel::c
