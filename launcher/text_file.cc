// SPDX-License-Identifier: Apache-2.0
#include "launcher/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "lib/unique_fd.h"

namespace rondel {
namespace {

Result<std::string> checked(std::string text, const std::string& path, std::string_view kind) {
  if (text.find('\0') == std::string::npos) return text;
  return Status(Code::invalid_argument, fmt::format("{} holds a zero byte, so that it is no text", path),
                fmt::format("expected a {}", kind));
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::string_view kind,
                                   std::chrono::milliseconds pipe_patience) {
  constexpr std::size_t kMostBytes = 16 << 20;
  const std::string what = fmt::format("reading the {} {}", kind, path);
  // Opening a named pipe would wait for its writer without limit.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return system_failure(Code::unavailable, what, errno);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return system_failure(Code::unavailable, what, errno);
  std::string text;
  std::array<char, 64 * 1024> piece;
  for (;;) {
    pollfd item{fd.get(), POLLIN, 0};
    if (S_ISFIFO(facts.st_mode) && ::poll(&item, 1, static_cast<int>(pipe_patience.count())) == 0)
      return Status(Code::timed_out,
                    fmt::format("{}: nobody has written to this pipe for {:g} s", what,
                                static_cast<double>(pipe_patience.count()) / 1000.0),
                    "give a file, or start its writer first");
    const ssize_t bytes = ::read(fd.get(), piece.data(), piece.size());
    if (bytes == 0) return checked(std::move(text), path, kind);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (bytes < 0) return system_failure(Code::unavailable, what, errno);
    text.append(piece.data(), static_cast<std::size_t>(bytes));
    if (text.size() > kMostBytes)
      return Status(Code::invalid_argument, fmt::format("{} is larger than {} MiB", path, kMostBytes >> 20),
                    fmt::format("expected a {}", kind));
  }
}

Status for_each_line(std::string_view text, const std::function<Status(std::string_view line)>& use) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    RONDEL_TRY(use(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

}  // namespace rondel
