// SPDX-License-Identifier: Apache-2.0
#include "launcher/frame_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "launcher/agent_protocol.h"

namespace rondel {
namespace {

void make_non_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

FrameChannel::FrameChannel(EventLoop& loop, UniqueFd in, UniqueFd out, std::string_view magic)
    : loop_(loop), in_(std::move(in)), out_(std::move(out)), reader_(agent::kFrameLimit) {
  make_non_blocking(in_.get());
  make_non_blocking(out_.get());
  if (magic.empty()) return;
  preamble_.emplace(magic);
  in_preamble_ = true;
}

Status FrameChannel::open(Use use, End end) {
  use_ = std::move(use);
  end_ = std::move(end);
  return loop_.watch(in_.get(), EPOLLIN, [this] { receive(); });
}

void FrameChannel::receive() {
  constexpr int kReads = 4;  // at a time, so that other streams have their turn
  std::array<std::byte, 128 * 1024> piece;
  for (int i = 0; i < kReads && in_; ++i) {
    const ssize_t got = ::read(in_.get(), piece.data(), piece.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return finish({});
    const Status taken = take(std::span(piece).first(static_cast<std::size_t>(got)));
    if (!taken.ok()) return finish(taken);
    if (static_cast<std::size_t>(got) < piece.size()) return;
  }
}

Status FrameChannel::take(std::span<const std::byte> bytes) {
  if (in_preamble_) {
    const auto rest = preamble_->feed(bytes);
    if (!rest.ok()) return rest.status();
    if (!*rest) return {};
    in_preamble_ = false;
    bytes = **rest;
  }
  reader_.add(bytes);
  while (in_) {  // using a frame may close the channel
    const auto body = reader_.next_in_place();
    if (!body.ok()) return body.status();
    if (!*body) return {};
    RONDEL_TRY(use_(**body));
  }
  return {};
}

void FrameChannel::finish(Status why) {
  if (in_) loop_.forget(in_.get());
  in_.reset();
  const End end = std::exchange(end_, nullptr);
  if (end) end(std::move(why));
}

void FrameChannel::send_raw(std::string_view bytes) {
  if (broken_ || !out_) return;
  const auto raw = wire::as_bytes(bytes);
  unsent_.insert(unsent_.end(), raw.begin(), raw.end());
  flush();
}

void FrameChannel::send(std::span<const std::byte> body) {
  if (broken_ || !out_) return;
  const Bytes length = wire::Writer().number(static_cast<std::uint32_t>(body.size())).take();
  std::size_t gone = 0;
  if (!has_unsent()) {  // straight from where it lies, as far as the stream takes it
    const std::array<iovec, 2> parts{iovec{const_cast<std::byte*>(length.data()), length.size()},
                                     iovec{const_cast<std::byte*>(body.data()), body.size()}};
    const ssize_t wrote = ::writev(out_.get(), parts.data(), static_cast<int>(parts.size()));
    gone = static_cast<std::size_t>(std::max<ssize_t>(wrote, 0));  // a failure comes again in flush()
  }
  for (const std::span<const std::byte> part : {std::span<const std::byte>(length), body}) {
    const std::size_t skipped = std::min(gone, part.size());
    unsent_.insert(unsent_.end(), part.begin() + static_cast<std::ptrdiff_t>(skipped), part.end());
    gone -= skipped;
  }
  flush();
}

void FrameChannel::flush() {
  while (out_ && !broken_ && has_unsent()) {
    const ssize_t wrote = ::write(out_.get(), unsent_.data() + sent_, unsent_.size() - sent_);
    if (wrote >= 0) {
      sent_ += static_cast<std::size_t>(wrote);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
    }
  }
  if (!has_unsent() || broken_) {
    unsent_.clear();
    sent_ = 0;
  } else if (sent_ >= unsent_.size() / 2) {
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent_));
    sent_ = 0;
  }
  const bool wanted = has_unsent();
  if (wanted == awaits_room_ || !out_) return;
  if (wanted && !loop_.watch(out_.get(), EPOLLOUT, [this] { flush(); }).ok()) return;
  if (!wanted) loop_.forget(out_.get());
  awaits_room_ = wanted;
}

bool FrameChannel::flush_within(std::chrono::milliseconds limit) {
  const Deadline deadline = Deadline::in(limit);
  for (flush(); has_unsent() && !deadline.passed(); flush()) {
    pollfd ready{.fd = out_.get(), .events = POLLOUT, .revents = 0};
    ::poll(&ready, 1, deadline.left_ms());
  }
  return !has_unsent();
}

void FrameChannel::close() {
  if (in_) loop_.forget(in_.get());
  if (awaits_room_) loop_.forget(out_.get());
  awaits_room_ = false;
  in_.reset();
  out_.reset();
  unsent_.clear();
  sent_ = 0;
}

}  // namespace rondel
