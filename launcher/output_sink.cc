// SPDX-License-Identifier: Apache-2.0
#include "launcher/output_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace rondel {

OutputSink::OutputSink(int fd) : fd_(fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) {
    error_ = errno;
    return;
  }
  if (S_ISSOCK(facts.st_mode)) {
    way_ = Way::socket;
  } else if (S_ISFIFO(facts.st_mode) || ::isatty(fd) == 1) {
    // O_NONBLOCK belongs to the open file, which the shell and others share: set it on an opening of our own.
    reopened_ = UniqueFd(
        ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    way_ = reopened_ ? Way::non_blocking : Way::small_steps;
    if (reopened_) fd_ = reopened_.get();
  }
}

long OutputSink::write_some(const char* bytes, std::size_t count) const {
  if (way_ == Way::socket) return ::send(fd_, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (way_ == Way::small_steps) {
    pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, 0) <= 0) {
      errno = EAGAIN;
      return -1;
    }
    count = std::min<std::size_t>(count, PIPE_BUF);
  }
  return ::write(fd_, bytes, count);
}

void OutputSink::flush() {
  while (!broken() && pending() > 0) {
    const long wrote = write_some(buffer_.data() + written_, pending());
    if (wrote >= 0) {
      written_ += static_cast<std::size_t>(wrote);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  compact();
}

void OutputSink::compact() {
  if (broken() || pending() == 0) {
    buffer_.clear();
    written_ = 0;
  } else if (written_ >= buffer_.size() / 2) {
    buffer_.erase(0, written_);
    written_ = 0;
  }
}

bool same_destination(int a, int b) {
  struct stat first {
  }, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

}  // namespace rondel
