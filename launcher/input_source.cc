// SPDX-License-Identifier: Apache-2.0
#include "launcher/input_source.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace rondel {

bool input_is_taken() { return ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp(); }

void InputSource::grant(std::uint32_t bytes) {
  room_ += bytes;
  resume();
}

void InputSource::resume() {
  if (ended_ || room_ == 0 || watched_ || input_is_taken()) return;
  watched_ = loop_.watch(STDIN_FILENO, EPOLLIN, [this] { read_some(); }).ok();
  // epoll takes no regular files; those never make one wait.
  while (!watched_ && !ended_ && room_ > 0 && read_some()) continue;
}

bool InputSource::read_some() {
  pollfd ready{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, 0) <= 0) return false;
  if (input_is_taken()) {
    loop_.forget(STDIN_FILENO);
    watched_ = false;
    return false;
  }
  Bytes piece(std::min(room_, agent::kPieceBytes));
  const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    send_(agent::InputEnd{});
    stop();
    return false;
  }
  piece.resize(static_cast<std::size_t>(got));
  room_ -= piece.size();
  send_(agent::InputPiece{std::move(piece)});
  if (room_ == 0 && watched_) {
    loop_.forget(STDIN_FILENO);
    watched_ = false;
  }
  return true;
}

void InputSource::stop() {
  if (watched_) loop_.forget(STDIN_FILENO);
  watched_ = false;
  ended_ = true;
}

}  // namespace rondel
