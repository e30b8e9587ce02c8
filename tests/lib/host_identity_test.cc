// SPDX-License-Identifier: Apache-2.0
#include "lib/host_identity.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/lib/temporary_directory.h"

namespace rondel {
namespace {

constexpr int kNoQuota = std::numeric_limits<int>::max();

TEST_CASE("this host has a name, a kernel and at least one core") {
  const HostIdentity host = *this_host();
  std::array<char, 256> name{};
  REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  CHECK(host.name == name.data());
  CHECK(host.kernel.size() > 36);  // a boot id and more
  CHECK(host.cores >= 1);
  CHECK(this_host()->kernel == host.kernel);
}

TEST_CASE("a process bound to one core counts one") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (::sched_getaffinity(0, sizeof(all), &all) != 0) ::_exit(2);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_SET(first, &one);
    if (::sched_setaffinity(0, sizeof(one), &one) != 0) ::_exit(3);
    ::_exit(this_host()->cores == 1 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a process without a free descriptor is told so, instead of having no kernel") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) ::_exit(2);
    const auto host = this_host();
    ::_exit(!host.ok() && host.status().code() == Code::out_of_resources && !host_name().empty() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("another network namespace is another kernel on the same machine") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWNET) != 0) ::_exit(77);
    const std::string kernel = this_host()->kernel;
    ::_exit(::write(ends[1], kernel.data(), kernel.size()) == static_cast<ssize_t>(kernel.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::array<char, 256> text{};
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WEXITSTATUS(status) == 77) {
    WARN("not checked: this machine allows no new network namespace");
    return;
  }
  REQUIRE(status == 0);
  HostIdentity elsewhere;
  elsewhere.kernel.assign(text.data(), static_cast<std::size_t>(got));
  CHECK(elsewhere.kernel != this_host()->kernel);
  CHECK(same_machine(elsewhere, *this_host()));
  elsewhere.kernel[0] = elsewhere.kernel[0] == '0' ? '1' : '0';
  CHECK_FALSE(same_machine(elsewhere, *this_host()));
}

class Groups {
 public:
  void write(const std::string& file, const std::string& text) const {
    const std::string path = directory_.path() + "/" + file;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text << '\n';
  }
  int cores() const { return cgroup_cores(directory_.path() + "/membership", directory_.path() + "/fs"); }

 private:
  test::TemporaryDirectory directory_;
};

TEST_CASE("a version 2 quota is rounded up, and the tightest group wins") {
  const Groups groups;
  CHECK(groups.cores() == kNoQuota);
  groups.write("membership", "0::/pod/container");
  CHECK(groups.cores() == kNoQuota);
  groups.write("fs/pod/container/cpu.max", "max 100000");
  CHECK(groups.cores() == kNoQuota);
  groups.write("fs/pod/cpu.max", "350000 100000");
  CHECK(groups.cores() == 4);
  groups.write("fs/pod/container/cpu.max", "150000 100000");
  CHECK(groups.cores() == 2);
  groups.write("fs/cpu.max", "5000 100000");
  CHECK(groups.cores() == 1);
}

TEST_CASE("a version 1 quota is found under either name of its controller") {
  const Groups groups;
  groups.write("membership", "9:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n0::/job");
  groups.write("fs/cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  groups.write("fs/cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  CHECK(groups.cores() == kNoQuota);
  groups.write("fs/cpu,cpuacct/job/cpu.cfs_quota_us", "250000");
  CHECK(groups.cores() == 3);
  groups.write("fs/cpu/job/cpu.cfs_quota_us", "100000");
  groups.write("fs/cpu/job/cpu.cfs_period_us", "100000");
  CHECK(groups.cores() == 1);
}

TEST_CASE("odd control group files are no quota") {
  const Groups groups;
  groups.write("membership", "nonsense\n0:\n0::relative\n:::\n0::/a");
  groups.write("fs/a/cpu.max", "0 0");
  CHECK(groups.cores() == kNoQuota);
  groups.write("fs/a/cpu.max", "words");
  CHECK(groups.cores() == kNoQuota);
}

}  // namespace
}  // namespace rondel
