// SPDX-License-Identifier: Apache-2.0
#include "launcher/rank_input.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

namespace rondel {

Result<UniqueFd> RankInput::open() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return system_failure(Code::unavailable, "opening a pipe for standard input", errno);
  UniqueFd rank_s(ends[0]);
  pipe_ = UniqueFd(ends[1]);
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);  // of our end only
  send_(agent::InputRoom{kWindow});
  return rank_s;
}

Status RankInput::take(const Bytes& piece) {
  if (!pipe_) return {};  // the rank reads no more; what was under way is dropped
  if (unwritten_.size() + piece.size() > kWindow)
    return Status(Code::refused, "more standard input than was asked for");
  unwritten_.insert(unwritten_.end(), piece.begin(), piece.end());
  flush();
  return {};
}

void RankInput::end() {
  ended_ = true;
  flush();
}

void RankInput::flush() {
  std::size_t wrote_bytes = 0;
  while (pipe_ && wrote_bytes < unwritten_.size()) {
    const ssize_t wrote =
        ::write(pipe_.get(), unwritten_.data() + wrote_bytes, unwritten_.size() - wrote_bytes);
    if (wrote >= 0) {
      wrote_bytes += static_cast<std::size_t>(wrote);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return close();  // the rank has closed it
    }
  }
  unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<std::ptrdiff_t>(wrote_bytes));
  if (wrote_bytes > 0 && !ended_) send_(agent::InputRoom{static_cast<std::uint32_t>(wrote_bytes)});
  if (unwritten_.empty() && ended_) return close();
  const bool wanted = !unwritten_.empty();
  if (wanted == watched_) return;
  if (wanted && !loop_.watch(pipe_.get(), EPOLLOUT, [this] { flush(); }).ok()) return;
  if (!wanted) loop_.forget(pipe_.get());
  watched_ = wanted;
}

void RankInput::close() {
  if (watched_) loop_.forget(pipe_.get());
  watched_ = false;
  pipe_.reset();
  unwritten_.clear();
}

}  // namespace rondel
