// SPDX-License-Identifier: Apache-2.0
#include "launcher/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/unique_fd.h"

namespace rondel {

Result<std::string> read_text_file(const std::string& path, std::string_view kind) {
  constexpr std::size_t kMostBytes = 16 << 20;
  const std::string what = fmt::format("reading the {} {}", kind, path);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_failure(Code::unavailable, what, errno);
  std::string text;
  std::array<char, 64 * 1024> piece;
  for (;;) {
    const ssize_t bytes = ::read(fd.get(), piece.data(), piece.size());
    if (bytes == 0) return text;
    if (bytes < 0 && errno == EINTR) continue;
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
