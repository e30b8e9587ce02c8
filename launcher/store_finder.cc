// SPDX-License-Identifier: Apache-2.0
#include "launcher/store_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "lib/interfaces.h"
#include "lib/store/dial.h"
#include "lib/store/socket.h"

namespace rondel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPatience{300};  // for one address; three times as long in the next round

std::string host_in(const std::string& store) {
  const auto parts = store::parse_address(store);
  return parts.ok() ? parts->host : std::string();
}

std::string joined(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// sshd says ::ffff:10.0.0.1 for an IPv4 client of a socket for both.
std::string without_mapping(std::string address) {
  constexpr std::string_view kMapped = "::ffff:";
  if (address.starts_with(kMapped) && address.find('.') != std::string::npos)
    address.erase(0, kMapped.size());
  return address;
}

std::vector<IpAddress> usable_addresses() {
  const auto interfaces = system_interfaces();
  std::vector<IpAddress> addresses;
  if (!interfaces.ok()) return addresses;
  for (const Interface& interface : *interfaces)
    if (!interface.address.is_loopback()) addresses.push_back(interface.address);
  return addresses;
}

}  // namespace

Result<std::vector<std::string>> advertised_stores(const std::string& net, std::uint16_t port) {
  const auto filter = NetFilter::parse(net);
  if (!filter.ok()) return filter.status();
  const auto interfaces = system_interfaces();
  if (!interfaces.ok()) return interfaces.status();
  auto chosen = filter->choose(*interfaces);
  if (!chosen.ok()) return std::move(chosen).status();
  std::stable_sort(chosen->begin(), chosen->end(), [](const Interface& one, const Interface& other) {
    return !one.address.is_v6() && other.address.is_v6();
  });
  std::vector<std::string> stores;
  for (const Interface& interface : *chosen)
    stores.push_back(store::join_address(interface.address.text(), port));
  if (stores.empty())
    return Status(Code::unavailable, "this host has no address at which other hosts could reach it",
                  "is a network interface up?");
  return stores;
}

std::optional<SshRoute> parse_ssh_connection(const char* value) {
  if (value == nullptr) return std::nullopt;
  std::istringstream words(value);
  SshRoute route;
  std::string port;
  if (!(words >> route.client >> port >> route.server)) return std::nullopt;
  route.client = without_mapping(route.client);
  route.server = without_mapping(route.server);
  if (!parse_ip(route.client).ok() || !parse_ip(route.server).ok()) return std::nullopt;
  return route;
}

StoreSearch::StoreSearch(std::vector<std::string> stores, const std::string& likely, const Secret& secret,
                         Deadline deadline)
    : stores_(std::move(stores)), secret_(secret), deadline_(deadline), patience_(kFirstPatience) {
  std::stable_partition(stores_.begin(), stores_.end(),
                        [&likely](const std::string& store) { return host_in(store) == likely; });
  failures_ = stores_;
}

std::optional<Result<std::string>> StoreSearch::try_next() {
  const std::string& address = stores_[next_];
  const auto tried =
      store::dial_once(address, secret_, store::kStoreRole, Deadline::in(patience_).or_before(deadline_));
  if (tried.ok()) return address;
  const std::string why = tried.status().failure().cause;
  failures_[next_] = why.find(address) == std::string::npos ? fmt::format("{}: {}", address, why) : why;
  next_ = (next_ + 1) % stores_.size();
  if (next_ == 0) patience_ = std::min(3 * patience_, kLongestPatience);
  if (!deadline_.passed()) return std::nullopt;
  const std::chrono::duration<double> waited = Deadline::Clock::now() - since_;
  return Status(
      Code::unavailable,
      fmt::format("it can not reach the launcher's host in {:.1f} s: {}", waited.count(), joined(failures_)),
      "hosts must let one another connect; --net chooses among the launcher's addresses");
}

std::string own_address(const std::optional<SshRoute>& route) {
  if (route && !parse_ip(route->server)->is_loopback()) return route->server;
  const auto addresses = usable_addresses();
  const auto v4 = std::find_if(addresses.begin(), addresses.end(),
                               [](const IpAddress& address) { return !address.is_v6(); });
  if (v4 != addresses.end()) return v4->text();
  return addresses.empty() ? "127.0.0.1" : addresses.front().text();
}

}  // namespace rondel
