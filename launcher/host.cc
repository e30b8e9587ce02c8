// SPDX-License-Identifier: Apache-2.0
#include "launcher/host.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondel {

std::string name_of(const Host& host) {
  const bool address = host.name.find(':') != std::string::npos;
  return fmt::format("{}{}{}{}{}", host.user, host.user.empty() ? "" : "@", address ? "[" : "", host.name,
                     address ? "]" : "");
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

Status HostRoster::add(std::span<const Host> named) {
  if (named.size() > 1) range_room_ -= std::min(range_room_, named.size());
  for (const Host& host : named) RONDEL_TRY(add_one(host));
  return {};
}

Status HostRoster::add_one(const Host& host) {
  const std::string key = fmt::format("{} {}", lower_case(host.name), host.ssh_port);
  const auto [place, fresh] = places_.try_emplace(key, hosts_.size());
  if (fresh) {
    hosts_.push_back(host);
    return {};
  }
  Host& known = hosts_[place->second];
  if (known.user != host.user)
    return Status(Code::invalid_argument,
                  fmt::format("one host is named as {} and as {}", name_of(known), name_of(host)),
                  "expected the same user each time, or none");
  if (host.slots > kMostSlots - known.slots)
    return Status(Code::invalid_argument,
                  fmt::format("host {} has {} slots and {} more", name_of(host), known.slots, host.slots),
                  fmt::format("expected at most {} in all", kMostSlots));
  known.slots += host.slots;
  return {};
}

}  // namespace rondel
