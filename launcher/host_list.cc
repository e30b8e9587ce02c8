// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_list.h"

#include <fmt/format.h>

#include "launcher/host_item.h"
#include "launcher/visible_text.h"

namespace rondel {
namespace {

/// Takes the first item off `rest`, with the comma behind it; commas in brackets belong to the item.
std::string_view take_item(std::string_view& rest) {
  bool in_brackets = false;
  std::size_t at = 0;
  for (; at < rest.size() && (in_brackets || rest[at] != ','); ++at) {
    if (rest[at] == '[') in_brackets = true;
    if (rest[at] == ']') in_brackets = false;
  }
  const std::string_view item = rest.substr(0, at);
  rest.remove_prefix(at);
  return item;
}

}  // namespace

Result<std::vector<Host>> parse_host_list(std::string_view text) {
  HostRoster roster;
  for (std::string_view rest = text;; rest.remove_prefix(1)) {
    const std::string_view item = take_item(rest);
    if (item.empty())
      return Status(Code::invalid_argument, fmt::format("host list {}: an item is empty", visible(text)),
                    "expected hosts with one comma between two of them, as in node1:4,node2:4");
    auto parsed = parse_host_item(item, roster.range_room());
    if (!parsed.ok()) return std::move(parsed).status();
    RONDEL_TRY(roster.add(parsed->hosts).with("host " + visible(item)));
    if (rest.empty()) return roster.take();
  }
}

}  // namespace rondel
