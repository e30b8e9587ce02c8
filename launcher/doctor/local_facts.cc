// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/local_facts.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <string_view>

#include "lib/deadline.h"
#include "lib/host_identity.h"
#include "lib/interfaces.h"
#include "lib/system_files.h"

namespace rondel::doctor {
namespace {

std::optional<std::uint64_t> limit_value(rlim_t value) {
  if (value == RLIM_INFINITY) return std::nullopt;
  return value;
}

LimitFacts limit_of(__rlimit_resource_t resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return {};
  return {.soft = limit_value(limit.rlim_cur), .hard = limit_value(limit.rlim_max)};
}

/// The number behind `key` of a file with "Key:   123 kB" lines, in its own unit and base.
std::uint64_t number_after(const std::string& text, std::string_view key, int base = 10) {
  const auto at = text.find(key);
  if (at == std::string::npos) return 0;
  const auto start = text.find_first_not_of(" \t", at + key.size());
  std::uint64_t number = 0;
  if (start != std::string::npos)
    std::from_chars(text.data() + start, text.data() + text.size(), number, base);
  return number;
}

std::vector<NicFacts> nics_under(const std::string& root, const std::string& net, std::string& failure) {
  std::vector<NicFacts> facts;
  const auto interfaces = system_interfaces();
  if (!interfaces.ok()) {
    failure = interfaces.status().text();
    return facts;
  }
  const auto filter = NetFilter::parse(net);
  if (!filter.ok())
    failure = filter.status().text();
  else if (const auto chosen = filter->choose(*interfaces); !chosen.ok())
    failure = chosen.status().text();
  for (const Interface& one : *interfaces) {
    const std::string folder = root + "/sys/class/net/" + one.name;
    NicFacts nic;
    nic.name = one.name;
    nic.address = one.address.text();
    nic.prefix_bits = one.prefix_bits;
    nic.mtu = static_cast<std::uint32_t>(number_in(folder + "/mtu").value_or(0));
    nic.speed_mbit_s = number_in(folder + "/speed");
    if (nic.speed_mbit_s && *nic.speed_mbit_s <= 0) nic.speed_mbit_s.reset();
    nic.numa_node = numa_node_of(folder + "/device");
    nic.chosen = filter.ok() && filter->admits(one);
    facts.push_back(std::move(nic));
  }
  return facts;
}

void add_memory(HostFacts& facts, const std::string& root) {
  const std::string text = whole_text(root + "/proc/meminfo");
  facts.memory_bytes = number_after(text, "MemTotal:") * 1024;
  facts.memory_free_bytes = number_after(text, "MemAvailable:") * 1024;
  struct statvfs shm {};
  if (::statvfs((root + "/dev/shm").c_str(), &shm) != 0) return;
  facts.shm_bytes = shm.f_blocks * shm.f_frsize;
  facts.shm_free_bytes = shm.f_bavail * shm.f_frsize;
}

std::string address_text(const addrinfo& one) {
  char text[NI_MAXHOST] = "";
  return ::getnameinfo(one.ai_addr, one.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0
             ? std::string(text)
             : std::string();
}

}  // namespace

LimitFacts open_file_limits() { return limit_of(RLIMIT_NOFILE); }

NameFacts resolve_own_name(const std::string& name) {
  const auto began = Deadline::Clock::now();
  NameFacts facts;
  facts.name = name;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  if (error != 0) facts.failure = ::gai_strerror(error);
  for (const addrinfo* one = error == 0 ? found : nullptr; one != nullptr; one = one->ai_next)
    if (std::string text = address_text(*one); !text.empty()) facts.addresses.push_back(std::move(text));
  facts.took_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - began).count();
  return facts;
}

HostFacts gather_facts(const std::string& net, const std::string& root) {
  constexpr unsigned kCapIpcLock = 14;
  HostFacts facts;
  utsname system{};
  if (::uname(&system) == 0) facts.kernel = fmt::format("{} {}", system.release, system.machine);
  facts.machine_cores = machine_cores();
  const auto host = this_host();
  facts.usable_cores = host.ok() ? host->cores : facts.machine_cores;
  const int quota = cgroup_cores(root + "/proc/self/cgroup", root + "/sys/fs/cgroup");
  if (quota != std::numeric_limits<int>::max()) facts.cgroup_cores = quota;
  add_memory(facts, root);
  facts.open_files = open_file_limits();
  facts.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  facts.may_lock =
      (number_after(whole_text(root + "/proc/self/status"), "CapEff:", 16) >> kCapIpcLock & 1U) != 0;
  facts.nics = nics_under(root, net, facts.nic_failure);
  facts.rdma = rdma_under(root);
  facts.gpus = gpus_under(root);
  facts.numa = numa_under(root);
  facts.own_name = resolve_own_name(host_name());
  facts.congestion_control = first_line(root + "/proc/sys/net/ipv4/tcp_congestion_control");
  return facts;
}

}  // namespace rondel::doctor
