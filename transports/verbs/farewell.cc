// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/farewell.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>

#include "lib/wire.h"

namespace rondel::verbs {
namespace {

constexpr std::uint8_t kFarewellMark = 'B';
constexpr std::size_t kFarewellBytes = 1 + sizeof(std::uint32_t);

}  // namespace

void say_farewell(int socket, std::uint32_t pieces_received) {
  const auto word = wire::Writer().number(kFarewellMark).number(pieces_received).take();
  static_cast<void>(::send(socket, word.data(), word.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

std::optional<Farewell> hear_farewell(int socket) {
  std::array<std::byte, kFarewellBytes> word{};
  // So few bytes come together or not at all.
  const ssize_t got = ::recv(socket, word.data(), word.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return std::nullopt;
  if (got < 0) return Farewell{.why = std::system_category().message(errno)};
  wire::Reader reader(std::span<const std::byte>(word).first(static_cast<std::size_t>(got)));
  const bool said = reader.number<std::uint8_t>() == kFarewellMark;
  const auto pieces = reader.number<std::uint32_t>();
  if (said && reader.finished()) return Farewell{pieces, "it closed the connection"};
  return Farewell{.why = "it closed the connection"};
}

}  // namespace rondel::verbs
