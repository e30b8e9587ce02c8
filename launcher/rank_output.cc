// SPDX-License-Identifier: Apache-2.0
#include "launcher/rank_output.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace rondel {

Status RankOutput::add(Rank rank, agent::Stream stream, UniqueFd pipe) {
  Source& source =
      *sources_.emplace_back(std::make_unique<Source>(Source{rank, stream, std::move(pipe), false}));
  return watch(source);
}

Status RankOutput::watch(Source& source) {
  return loop_.watch(source.pipe.get(), EPOLLIN, [this, &source] { read_from(source); });
}

void RankOutput::read_from(Source& source) {
  std::size_t& room = room_for(source);
  if (room == 0) {
    loop_.forget(source.pipe.get());
    source.held = true;
    return;
  }
  const ssize_t got = ::read(source.pipe.get(), buffer_.data(), std::min(buffer_.size(), room));
  if (got > 0) {
    last_read_ = std::chrono::steady_clock::now();
    room -= static_cast<std::size_t>(got);
    send_(agent::Output{source.rank, source.stream, Bytes(buffer_.begin(), buffer_.begin() + got)});
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    end(source);
  }
}

void RankOutput::end(Source& source) {
  if (!source.held) loop_.forget(source.pipe.get());
  source.held = false;
  source.pipe.reset();
  send_(agent::OutputEnd{source.rank, source.stream});
}

void RankOutput::grant(agent::Stream stream, std::size_t bytes) {
  room_[static_cast<std::size_t>(stream)] += bytes;
  for (const auto& source : sources_)
    if (source->held && source->stream == stream && watch(*source).ok()) source->held = false;
}

bool RankOutput::streams_open() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const auto& source) { return static_cast<bool>(source->pipe); });
}

void RankOutput::close_silent_streams(std::chrono::milliseconds silence) {
  if (std::chrono::steady_clock::now() - last_read_ < silence) return;
  for (const auto& source : sources_) {
    if (!source->pipe || source->held) continue;
    // Its reader may have found room just now, and not have come to it.
    pollfd pipe{source->pipe.get(), POLLIN, 0};
    if (::poll(&pipe, 1, 0) == 0) end(*source);
  }
}

void RankOutput::discard() {
  for (const auto& source : sources_) {
    if (source->pipe && !source->held) loop_.forget(source->pipe.get());
    source->held = false;
    source->pipe.reset();
  }
}

}  // namespace rondel
