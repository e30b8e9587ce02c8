// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_item.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "launcher/host_range.h"
#include "launcher/visible_text.h"

namespace rondel {
namespace {

constexpr std::size_t kLongestUser = 64;
constexpr std::size_t kLongestZone = 15;  // of an interface's name
constexpr const char* kForm = "expected [user@]NAME[:SLOTS], such as node1:4";

Status malformed(std::string_view what, std::string_view expected) {
  return Status(Code::invalid_argument, std::string(what), std::string(expected));
}

Status check_bytes(std::string_view item) {
  if (item.empty()) return malformed("nothing is there", kForm);
  for (const char c : item) {
    if (c == ' ' || c == '\t') return malformed("a space is in it", kForm);
    if (c < '!' || c > '~')
      return malformed(fmt::format("the character {} is in it", visible({&c, 1})), kForm);
  }
  return {};
}

/// The address with its zone in the one usual spelling, so that two spellings are one host.
std::optional<std::string> ipv6_address(std::string_view text) {
  const auto percent = text.find('%');
  const std::string address(text.substr(0, percent));
  std::string zone;
  if (percent != std::string_view::npos) {
    zone = text.substr(percent);
    if (zone.size() < 2 || zone.size() > kLongestZone + 1 ||
        !std::all_of(zone.begin() + 1, zone.end(), is_name_character))
      return std::nullopt;
  }
  in6_addr bytes{};
  std::array<char, INET6_ADDRSTRLEN> usual{};
  if (::inet_pton(AF_INET6, address.c_str(), &bytes) != 1 ||
      ::inet_ntop(AF_INET6, &bytes, usual.data(), usual.size()) == nullptr)
    return std::nullopt;
  return usual.data() + zone;
}

/// Brackets are missing, most likely: shows where they go.
Status wrong_colons(std::string_view text) {
  const auto last = text.rfind(':');
  const std::string_view front = text.substr(0, last), slots = text.substr(last + 1);
  const bool whole = ipv6_address(text).has_value();
  if (ipv6_address(front) && parse_count("slots", slots, kMostSlots).ok())
    return malformed(
        "an IPv6 address without brackets",
        fmt::format("write [{}]:{}{}", front, slots, whole ? fmt::format(", or [{}]", text) : ""));
  if (whole) return malformed("an IPv6 address without brackets", fmt::format("write [{}]:SLOTS", text));
  return malformed("more than one ':'",
                   "expected NAME:SLOTS; an IPv6 address goes in brackets, as in [::1]:2");
}

/// An item without its user: what names the hosts, and ":SLOTS" or nothing.
struct Halves {
  std::string_view name, rest;
};

Result<Halves> halve_address(std::string_view text) {
  const auto close = text.find(']');
  if (close == std::string_view::npos)
    return malformed("'[' without a ']' behind it", "expected an IPv6 address such as [::1]:2");
  const Halves halves{text.substr(0, close + 1), text.substr(close + 1)};
  if (!halves.rest.empty() && halves.rest.front() != ':')
    return malformed(fmt::format("{} behind the ']'", visible(halves.rest)), "expected :SLOTS or nothing");
  return halves;
}

Result<Halves> halve(std::string_view text) {
  if (text.starts_with('[')) return halve_address(text);
  const std::size_t colon = std::min(text.find(':'), text.size());
  const Halves halves{text.substr(0, colon), text.substr(colon)};
  if (halves.rest.find(':', 1) == std::string_view::npos) return halves;
  return wrong_colons(text);
}

Result<std::vector<std::string>> names_of(std::string_view text, std::size_t most) {
  if (text.empty()) return malformed("the host name is missing", kForm);
  if (text.front() == '-') return malformed("a host name does not begin with '-'", kForm);
  if (text.front() != '[') return expand_names(text, most);
  auto address = ipv6_address(text.substr(1, text.size() - 2));
  if (!address)
    return malformed(fmt::format("{} is no IPv6 address", visible(text)),
                     "expected one such as [::1], or a name in front of a range, as in n[01-16]");
  return std::vector<std::string>{*std::move(address)};
}

Result<HostItem> parse(std::string_view item, std::size_t most) {
  RONDEL_TRY(check_bytes(item));
  Host host;
  if (const auto at = item.rfind('@'); at != std::string_view::npos) {
    host.user = item.substr(0, at);
    RONDEL_TRY(check_user(host.user));
    item.remove_prefix(at + 1);
  }
  const auto halves = halve(item);
  if (!halves.ok()) return halves.status();
  HostItem parsed{.hosts = {}, .has_slots = !halves->rest.empty()};
  if (parsed.has_slots) {
    const auto slots = parse_count("slots", halves->rest.substr(1), kMostSlots);
    if (!slots.ok()) return slots.status();
    host.slots = *slots;
  }
  auto names = names_of(halves->name, most);
  if (!names.ok()) return std::move(names).status();
  for (std::string& name : *names) {
    host.name = std::move(name);
    parsed.hosts.push_back(host);
  }
  return parsed;
}

}  // namespace

Result<HostItem> parse_host_item(std::string_view item, std::size_t most_hosts) {
  auto parsed = parse(item, most_hosts);
  if (parsed.ok()) return parsed;
  return std::move(parsed).status().with("host " + visible(item));
}

std::string with_brackets(std::string_view item) {
  const auto at = item.rfind('@');
  const std::size_t start = at == std::string_view::npos ? 0 : at + 1;
  if (!ipv6_address(item.substr(start))) return std::string(item);
  return fmt::format("{}[{}]", item.substr(0, start), item.substr(start));
}

Status check_user(std::string_view user) {
  const bool plain = std::all_of(user.begin(), user.end(), is_name_character);
  if (plain && !user.empty() && user.size() <= kLongestUser && user.front() != '-') return {};
  return malformed(
      fmt::format("the user is {}", visible(user)),
      fmt::format("expected 1 to {} letters, digits, '.', '_' and '-', no '-' in front", kLongestUser));
}

Result<Rank> parse_count(std::string_view what, std::string_view text, Rank most) {
  Rank count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count >= 1 && count <= most) return count;
  return malformed(fmt::format("{}: found {}", what, visible(text)),
                   fmt::format("expected a whole number from 1 to {}", most));
}

}  // namespace rondel
