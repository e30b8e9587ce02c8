// SPDX-License-Identifier: Apache-2.0
// One word that names hosts: [user@]NAME[:SLOTS], where NAME may hold ranges or be an IPv6 address in
// brackets. Host lists and hostfiles are made of such words. Pure. What it lets through is safe as a word of
// an ssh command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/host.h"
#include "lib/status.h"

namespace rondel {

struct HostItem {
  std::vector<Host> hosts;  ///< one, or those of the ranges; each with the slots
  bool has_slots = false;   ///< whether they were written; else each host has 1
};

/// `most_hosts` is HostRoster::range_room(). invalid_argument shows the item and says what is wrong in it and
/// what was expected.
Result<HostItem> parse_host_item(std::string_view item, std::size_t most_hosts);

/// `item` with brackets around its name when that is an IPv6 address without them: for places where no :SLOTS
/// can follow.
std::string with_brackets(std::string_view item);

Status check_user(std::string_view user);
/// A whole number from 1 to `most`; `what` names it in the error.
Result<Rank> parse_count(std::string_view what, std::string_view text, Rank most);

}  // namespace rondel
