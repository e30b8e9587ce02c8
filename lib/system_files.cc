// SPDX-License-Identifier: Apache-2.0
#include "lib/system_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "lib/unique_fd.h"

namespace rondel {

std::string whole_text(const std::string& path, std::size_t most_bytes) {
  std::string text;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return text;
  std::array<char, 16384> piece;
  while (text.size() < most_bytes) {
    const ssize_t got = ::read(fd.get(), piece.data(), std::min(piece.size(), most_bytes - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> number_in(const std::string& path) {
  const std::string line = first_line(path);
  std::int64_t number = 0;
  const auto end = std::from_chars(line.data(), line.data() + line.size(), number);
  if (line.empty() || end.ec != std::errc() || end.ptr != line.data() + line.size()) return std::nullopt;
  return number;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<int> numa_node_of(const std::string& device_folder) {
  const auto node = number_in(device_folder + "/numa_node");
  if (!node || *node < 0) return std::nullopt;
  return static_cast<int>(*node);
}

}  // namespace rondel
