// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/system_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace rondel::doctor {

std::string whole_text(const std::string& path) {
  constexpr std::size_t kMost = 1U << 20U;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMost, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(file.is_open() ? static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)) : 0);
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

}  // namespace rondel::doctor
