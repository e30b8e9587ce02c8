// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/link_words.h"

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
constexpr std::uint8_t kQuestionMark = 'Q';
constexpr std::size_t kWordBytes = 1 + sizeof(std::uint32_t);

void say(int socket, std::uint8_t mark, std::uint32_t number) {
  const auto word = wire::Writer().number(mark).number(number).take();
  static_cast<void>(::send(socket, word.data(), word.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

}  // namespace

void say_farewell(int socket, std::uint32_t pieces_received) { say(socket, kFarewellMark, pieces_received); }
void ask_for(int socket, std::uint32_t work) { say(socket, kQuestionMark, work); }

std::optional<LinkWord> hear(int socket) {
  std::array<std::byte, kWordBytes> word{};
  // So few bytes come together or not at all.
  const ssize_t got = ::recv(socket, word.data(), word.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return std::nullopt;
  if (got < 0) return LinkWord{.why = std::system_category().message(errno)};
  wire::Reader reader(std::span<const std::byte>(word).first(static_cast<std::size_t>(got)));
  const auto mark = reader.number<std::uint8_t>();
  const auto number = reader.number<std::uint32_t>();
  if (reader.finished() && mark == kQuestionMark) return LinkWord{.farewell = false, .number = number};
  if (reader.finished() && mark == kFarewellMark)
    return LinkWord{.number = number, .why = "it closed the connection"};
  return LinkWord{.why = "it closed the connection"};
}

}  // namespace rondel::verbs
