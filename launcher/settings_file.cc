// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/text_file.h"
#include "launcher/visible_text.h"

namespace rondel {
namespace {

constexpr std::string_view kBlanks = " \t";

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  const auto last = text.find_last_not_of(kBlanks);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

std::vector<std::string> words_of(std::string_view line) {
  const std::size_t end = std::min(line.find_first_of(" \t="), line.size());
  std::string_view name = line.substr(0, end);
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string_view value = trimmed(line.substr(end));
  const bool has_equals = value.starts_with('=');
  if (has_equals) value = trimmed(value.substr(1));
  std::vector<std::string> words{fmt::format("{}{}", name.size() == 1 ? "-" : "--", name)};
  if (has_equals || !value.empty()) words.emplace_back(value);
  return words;
}

}  // namespace

Result<std::vector<Setting>> parse_settings(std::string_view text, std::string_view file) {
  std::vector<Setting> settings;
  std::size_t number = 0;
  RONDEL_TRY(for_each_line(text, [&settings, &number, file](std::string_view whole) {
    ++number;
    const std::string_view line = trimmed(whole);
    if (line.empty() || line.front() == '#') return Status();
    Setting setting{fmt::format("{}:{}: {}", file, number, visible(line)), words_of(line)};
    if (setting.words.front().find_first_not_of('-') == std::string::npos)
      return Status(Code::invalid_argument, setting.where + ": no name of an option",
                    "expected a line such as np = 4");
    const std::string& value = setting.words.back();
    if (setting.words.size() > 1 && value.size() > 1 && (value.front() == '"' || value.front() == '\'') &&
        value.back() == value.front())
      return Status(Code::invalid_argument, setting.where + ": quotes would become part of the value",
                    "leave them out; a value reaches to the end of its line");
    settings.push_back(std::move(setting));
    return Status();
  }));
  return settings;
}

Result<std::vector<Setting>> read_settings_file(const std::string& path) {
  const auto text = read_text_file(path, "configuration file");
  if (!text.ok()) return text.status();
  return parse_settings(*text, path);
}

}  // namespace rondel
