// SPDX-License-Identifier: Apache-2.0
#include "lib/interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace rondel {
namespace {

IpAddress from_system(const sockaddr* address) {
  IpAddress ip;
  if (address->sa_family == AF_INET) {
    std::memcpy(ip.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  } else {
    ip.length = 16;
    std::memcpy(ip.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  }
  return ip;
}

std::uint8_t count_bits(const IpAddress& mask) {
  int bits = 0;
  for (int i = 0; i < mask.length; ++i) bits += std::popcount(mask.bytes[static_cast<std::size_t>(i)]);
  return static_cast<std::uint8_t>(bits);
}

std::string list_interfaces(std::span<const Interface> interfaces) {
  std::string text;
  for (const Interface& i : interfaces)
    text += fmt::format("{}{} {}/{}", text.empty() ? "" : ", ", i.name, i.address.text(), i.prefix_bits);
  return text.empty() ? "none" : text;
}

}  // namespace

bool IpAddress::is_loopback() const {
  if (!is_v6()) return bytes[0] == 127;
  return std::all_of(bytes.begin(), bytes.begin() + 15, [](std::uint8_t b) { return b == 0; }) &&
         bytes[15] == 1;
}

bool IpAddress::is_link_local() const {
  if (!is_v6()) return bytes[0] == 169 && bytes[1] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(is_v6() ? AF_INET6 : AF_INET, bytes.data(), text.data(), text.size());
  return text.data();
}

Result<IpAddress> parse_ip(std::string_view text) {
  const std::string copy(text);
  IpAddress ip;
  if (::inet_pton(AF_INET, copy.c_str(), ip.bytes.data()) == 1) return ip;
  ip.length = 16;
  if (::inet_pton(AF_INET6, copy.c_str(), ip.bytes.data()) == 1) return ip;
  return Status(Code::invalid_argument, fmt::format("'{}' is not an IPv4 or IPv6 address", text));
}

Result<std::vector<Interface>> system_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return system_failure(Code::io_error, "can not list network interfaces", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, &::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const auto family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface one{i->ifa_name, from_system(i->ifa_addr), 0};
    if (one.address.is_link_local()) continue;
    if (i->ifa_netmask != nullptr) one.prefix_bits = count_bits(from_system(i->ifa_netmask));
    found.push_back(std::move(one));
  }
  return found;
}

bool same_network(const IpAddress& a, const IpAddress& b, std::uint8_t bits) {
  if (a.length != b.length) return false;
  for (int i = 0; i < bits; ++i) {
    const auto byte = static_cast<std::size_t>(i / 8);
    const int mask = 0x80 >> (i % 8);
    if ((a.bytes[byte] & mask) != (b.bytes[byte] & mask)) return false;
  }
  return true;
}

Result<NetFilter::Term> NetFilter::parse_term(std::string_view text) {
  const Status bad(
      Code::invalid_argument, fmt::format("RONDEL_NET: can not read '{}'", text),
      "write interface names (eth0, eth*) or networks (10.0.0.0/8), comma separated, ^ to exclude");
  Term term;
  if (text.starts_with('^')) {
    term.exclude = true;
    text.remove_prefix(1);
  }
  if (text.empty()) return bad;
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    term.is_prefix = text.ends_with('*');
    if (term.is_prefix) text.remove_suffix(1);
    if (text.find('*') != std::string_view::npos || text.empty()) return bad;
    term.name = text;
    return term;
  }
  auto network = parse_ip(text.substr(0, slash));
  if (!network.ok()) return bad;
  term.network = *network;
  const std::string_view digits = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), term.bits);
  if (error != std::errc() || end != digits.data() + digits.size() || term.bits > term.network.length * 8)
    return bad;
  return term;
}

Result<NetFilter> NetFilter::parse(std::string_view text) {
  NetFilter filter;
  filter.text_ = text;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    auto term = parse_term(text.substr(0, comma));
    RONDEL_TRY(term);
    filter.terms_.push_back(*std::move(term));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return filter;
}

bool NetFilter::matches(const Term& term, const Interface& interface) {
  if (term.name.empty()) return same_network(term.network, interface.address, term.bits);
  return term.is_prefix ? interface.name.starts_with(term.name) : interface.name == term.name;
}

bool NetFilter::admits(const Interface& interface) const {
  bool any_include = false;
  bool included = false;
  for (const Term& term : terms_) {
    const bool match = matches(term, interface);
    if (term.exclude && match) return false;
    any_include |= !term.exclude;
    included |= !term.exclude && match;
  }
  if (any_include) return included;
  return !interface.address.is_loopback();
}

Result<std::vector<Interface>> NetFilter::choose(std::span<const Interface> interfaces) const {
  std::vector<Interface> chosen;
  std::copy_if(interfaces.begin(), interfaces.end(), std::back_inserter(chosen),
               [this](const Interface& i) { return admits(i); });
  if (chosen.empty() && !terms_.empty()) {
    return Status(Code::unavailable,
                  fmt::format("no interface of this host fits RONDEL_NET='{}'; there are: {}", text_,
                              list_interfaces(interfaces)),
                  "name one of these, or a network that holds one of their addresses");
  }
  return chosen;
}

}  // namespace rondel
