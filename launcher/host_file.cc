// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "launcher/host_item.h"
#include "launcher/text_file.h"
#include "launcher/visible_text.h"
#include "lib/nearest_name.h"

namespace rondel {
namespace {

constexpr Rank kLastPort = 65'535;

/// What stands behind the host in a line.
struct Settings {
  std::optional<Rank> slots, port;
  std::optional<std::string> user;
  bool max_slots = false;
};

Status wrong(std::string_view what, std::string_view expected) {
  return Status(Code::invalid_argument, std::string(what), std::string(expected));
}

/// Words at spaces and tabs, each '=' a word of its own: "a slots = 2" and "a slots=2" are the same.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    std::size_t bytes = std::min(line.find_first_of(" \t="), line.size());
    if (bytes > 0 || line.front() == '=') words.push_back(line.substr(0, std::max<std::size_t>(bytes, 1)));
    line.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return words;
}

template <class T>
Status set_once(std::optional<T>& setting, Result<T> value, std::string_view key) {
  if (!value.ok()) return std::move(value).status();
  if (setting) return wrong(fmt::format("{} is given twice", key), "expected it once");
  setting = *std::move(value);
  return {};
}

Status unknown_key(std::string_view key) {
  constexpr std::array<std::string_view, 4> kKeys{"slots", "port", "user", "max_slots"};
  const std::string_view nearest = nearest_name(key, kKeys);
  return wrong(fmt::format("unknown key {}", visible(key)),
               fmt::format("expected slots, port, user or max_slots{}",
                           nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
}

Status set(Settings& settings, std::string_view key, std::string_view value) {
  if (key == "slots") return set_once(settings.slots, parse_count(key, value, kMostSlots), key);
  if (key == "port") return set_once(settings.port, parse_count(key, value, kLastPort), key);
  if (key == "user") {
    RONDEL_TRY(check_user(value));
    return set_once<std::string>(settings.user, std::string(value), key);
  }
  if (key != "max_slots" && key != "max-slots") return unknown_key(key);
  settings.max_slots = true;
  return {};
}

/// `words` without the host.
Result<Settings> parse_settings(std::span<const std::string_view> words) {
  Settings settings;
  for (; !words.empty(); words = words.subspan(3)) {
    const std::string_view key = words[0];
    if (key == "=" || words.size() < 2 || words[1] != "=")
      return wrong(fmt::format("found {} behind the host", visible(key)),
                   "expected KEY=VALUE, such as slots=4");
    if (words.size() < 3 || words[2] == "=")
      return wrong(fmt::format("no value behind {} =", visible(key)), "expected KEY=VALUE, such as slots=4");
    RONDEL_TRY(set(settings, key, words[2]));
  }
  return settings;
}

Status apply(const Settings& settings, HostItem& item) {
  if (settings.slots && item.has_slots)
    return wrong("slots are given twice, behind ':' and as slots=", "expected one of them");
  if (settings.user && !item.hosts.front().user.empty())
    return wrong("the user is given twice, in front of '@' and as user=", "expected one of them");
  for (Host& host : item.hosts) {
    host.slots = settings.slots.value_or(host.slots);
    host.ssh_port = static_cast<std::uint16_t>(settings.port.value_or(0));
    if (settings.user) host.user = *settings.user;
  }
  return {};
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  Status take_line(std::string_view line) {
    ++number_;
    Status taken = take(line);
    if (taken.ok()) return taken;
    return std::move(taken).with(fmt::format("{}:{}: {}", file_, number_, visible(line)));
  }
  Result<HostFile> finish() {
    HostFile read{.hosts = roster_.take(), .warnings = {}};
    if (read.hosts.empty())
      return wrong(fmt::format("{} names no host", file_), "expected lines such as node1 slots=4");
    if (limited_lines_ > 0)
      read.warnings.push_back(fmt::format(
          "{}:{}: max_slots has no effect{}; --oversubscribe decides whether a host takes more than its "
          "slots",
          file_, first_limited_,
          limited_lines_ == 1 ? "" : fmt::format(", here and in {} more lines", limited_lines_ - 1)));
    return read;
  }

 private:
  Status take(std::string_view line) {
    const auto words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) return {};
    if (words[0] == "=" || (words.size() > 1 && words[1] == "="))
      return wrong("the line does not begin with a host", "expected one such as node1 slots=4");
    const auto settings = parse_settings(std::span(words).subspan(1));
    if (!settings.ok()) return settings.status();
    // In fd00::1 slots=2 no part of the address can be meant as slots.
    const std::string host = settings->slots ? with_brackets(words[0]) : std::string(words[0]);
    auto item = parse_host_item(host, roster_.range_room());
    if (!item.ok()) return std::move(item).status();
    if (settings->max_slots && limited_lines_++ == 0) first_limited_ = number_;
    RONDEL_TRY(apply(*settings, *item));
    return roster_.add(item->hosts);
  }

  std::string_view file_;
  HostRoster roster_;
  std::size_t number_ = 0;
  std::size_t limited_lines_ = 0, first_limited_ = 0;  // lines with max_slots
};

}  // namespace

Result<HostFile> parse_host_file(std::string_view text, std::string_view file) {
  Reader reader(file);
  RONDEL_TRY(for_each_line(text, [&reader](std::string_view line) { return reader.take_line(line); }));
  return reader.finish();
}

Result<HostFile> read_host_file(const std::string& path) {
  const auto text = read_text_file(path, "hostfile");
  if (!text.ok()) return text.status();
  return parse_host_file(*text, path);
}

}  // namespace rondel
