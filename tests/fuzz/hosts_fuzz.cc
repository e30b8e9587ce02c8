// SPDX-License-Identifier: Apache-2.0
// Any text as a host list and as a hostfile, and ranks placed on what comes of it. Input: {u8 kind and rules,
// u16 ranks, u8 ranks per host, text}.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/host_file.h"
#include "launcher/host_list.h"
#include "launcher/placement.h"
#include "lib/check.h"
#include "tests/fuzz/pieces.h"

namespace {

using rondel::check;
using rondel::Host;
using rondel::Rank;

/// Ranges that make thousands of hosts, and are not refused for it, take so long that little else is tried.
bool is_slow(std::string_view text) {
  if (text.find('[') == std::string_view::npos) return false;
  std::size_t digits = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && digits >= 3 && digits <= 5) return true;
    digits = digit ? digits + 1 : 0;
  }
  return digits >= 3 && digits <= 5;
}

void check_word(std::string_view word) {
  check(!word.starts_with('-'), "no word that ssh takes for an option");
  for (const char c : word)
    check((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              std::string_view("0123456789._-:%").find(c) != std::string_view::npos,
          "no character that a shell reads");
}

void check_hosts(const std::vector<Host>& hosts) {
  check(!hosts.empty(), "no list without hosts");
  for (const Host& host : hosts) {
    check(!host.name.empty() && host.slots >= 1 && host.slots <= rondel::kMostSlots,
          "a host has a name and slots");
    check_word(host.name);
    check_word(host.user);
  }
}

void check_refusal(const rondel::Status& status) {
  check(status.code() == rondel::Code::invalid_argument, "what is wrong is the argument");
  const std::string text = status.text();
  check(text.size() < 1000, "an error is short, whatever the input");
  for (const char c : text) check(c >= ' ' && c <= '~', "an error is fit for a terminal");
}

std::vector<Host> read_list(std::string_view text) {
  auto hosts = rondel::parse_host_list(text);
  if (!hosts.ok()) return check_refusal(hosts.status()), std::vector<Host>();
  check_hosts(*hosts);
  std::string printed;
  for (const Host& host : *hosts)
    printed += fmt::format("{}{}:{}", printed.empty() ? "" : ",", name_of(host), host.slots);
  const auto again = rondel::parse_host_list(printed);
  check(again.ok() && *again == *hosts, "what is printed of hosts is the same hosts");
  return *std::move(hosts);
}

std::vector<Host> read_file(std::string_view text) {
  auto file = rondel::parse_host_file(text, "hosts");
  if (!file.ok()) return check_refusal(file.status()), std::vector<Host>();
  check_hosts(file->hosts);
  check(file->warnings.size() <= 1, "one note says it all");
  return std::move(file->hosts);
}

void place(const std::vector<Host>& hosts, const rondel::PlacementRules& rules) {
  const auto places = rondel::place(hosts, rules);
  if (!places.ok()) return check_refusal(places.status());
  check(rules.ranks == 0 || static_cast<Rank>(places->size()) == rules.ranks, "every rank has a place");
  std::vector<Rank> counts(hosts.size());
  for (const auto& at : *places) check(at.local_rank == counts[at.host]++, "local ranks are dense");
  for (const auto& at : *places) {
    check(at.local_size == counts[at.host], "local sizes are true");
    check(rules.oversubscribe || at.local_size <= hosts[at.host].slots, "no more ranks than slots unasked");
    check(at.cross_rank >= 0 && at.cross_rank < at.cross_size, "cross ranks are in their size");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rondel::fuzz::Pieces pieces(data, size);
  const std::uint8_t kind = pieces.byte();
  const rondel::PlacementRules rules{.ranks = pieces.number(),
                                     .per_host = pieces.byte(),
                                     .map_by = (kind & 2) != 0 ? rondel::MapBy::node : rondel::MapBy::slot,
                                     .oversubscribe = (kind & 4) != 0};
  const auto bytes = pieces.bytes(size);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (is_slow(text)) return 0;
  const std::vector<Host> hosts = (kind & 1) != 0 ? read_file(text) : read_list(text);
  if (!hosts.empty()) place(hosts, rules);
  return 0;
}
