// SPDX-License-Identifier: Apache-2.0
#include "lib/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

#include "lib/cpu_set.h"
#include "lib/system_files.h"

namespace rondel {
namespace {

constexpr int kNoQuota = std::numeric_limits<int>::max();

int cores_of(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return kNoQuota;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, 1e6));
}

/// Version 2: "max 100000" or "150000 100000", microseconds of quota and period.
int read_cpu_max(const std::string& directory) {
  std::istringstream line(first_line(directory + "/cpu.max"));
  double quota = 0, period = 0;
  return line >> quota >> period ? cores_of(quota, period) : kNoQuota;
}

/// Version 1: a quota of -1 is none.
int read_cfs_quota(const std::string& directory) {
  std::istringstream quota_line(first_line(directory + "/cpu.cfs_quota_us"));
  std::istringstream period_line(first_line(directory + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  return quota_line >> quota && period_line >> period ? cores_of(quota, period) : kNoQuota;
}

/// The tightest quota of a group and all above it: each of them limits.
int tightest(const std::string& mount, std::string group, int (*read)(const std::string&)) {
  int cores = read(mount);
  while (group.size() > 1) {
    cores = std::min(cores, read(mount + group));
    group.resize(group.rfind('/'));
  }
  return cores;
}

bool controls_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');)
    if (name == "cpu") return true;
  return false;
}

}  // namespace

int cgroup_cores(const std::string& membership_path, const std::string& mount) {
  int cores = kNoQuota;
  std::ifstream membership(membership_path);
  for (std::string line; std::getline(membership, line);) {  // "4:cpu,cpuacct:/group" or "0::/group"
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (group.empty() || group.front() != '/') continue;
    if (controllers.empty()) cores = std::min(cores, tightest(mount, group, read_cpu_max));
    if (controls_cpu(controllers)) {
      cores = std::min(cores, tightest(mount + "/cpu", group, read_cfs_quota));
      if (controllers != "cpu")
        cores = std::min(cores, tightest(mount + "/" + controllers, group, read_cfs_quota));
    }
  }
  return cores;
}

// The boot id comes before the namespace in `kernel`.
bool same_machine(const HostIdentity& one, const HostIdentity& other) {
  const auto boot_id = [](const HostIdentity& host) {
    return std::string_view(host.kernel).substr(0, host.kernel.find('/'));
  };
  return boot_id(one) == boot_id(other);
}

int machine_cores() { return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))); }

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

Result<HostIdentity> this_host() {
  HostIdentity host;
  host.name = host_name();
  errno = 0;
  host.kernel = first_line("/proc/sys/kernel/random/boot_id");
  if (host.kernel.empty())
    return system_failure(Code::unavailable, "reading this machine's boot id", errno, "mount /proc");
  struct stat network {};
  if (::stat("/proc/self/ns/net", &network) == 0)
    host.kernel.append("/").append(std::to_string(network.st_ino));
  const CpuSet cpus = allowed_cpus();
  host.cores = std::min(cpus.empty() ? machine_cores() : static_cast<int>(cpus.size()),
                        cgroup_cores("/proc/self/cgroup", "/sys/fs/cgroup"));
  return host;
}

}  // namespace rondel
