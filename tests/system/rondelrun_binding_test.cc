// SPDX-License-Identifier: Apache-2.0
// Ranks that --bind-to binds. Passes without hwloc, which rondelrun then must say.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "lib/cpu_set.h"
#include "tests/system/rondelrun_process.h"
#include "tests/system/rondelrun_support.h"
#include "tests/system/stub_ssh.h"

using Catch::Matchers::Contains;
using rondel::allowed_cpus;
using rondel::CpuSet;
using rondel::test::RunningLauncher;
using rondel::test::StubSsh;

namespace {

constexpr const char* kShowCores = "sed -n 's/^Cpus_allowed_list:[[:space:]]*/cpus=/p' /proc/self/status";

bool without_hwloc() {
  RunningLauncher report({.arguments = {"--check-build"}});
  REQUIRE(report.wait() == 0);
  CHECK_THAT(report.output(), Contains("--bind-to"));
  if (report.output().find("--bind-to  usable") != std::string::npos) return false;
  WARN("skipped: rondelrun says " << report.output());
  RunningLauncher refused({.arguments = {"-np", "1", "--bind-to", "core", "true"}});
  CHECK(refused.wait() == 255);
  CHECK_THAT(refused.error(), Contains("hwloc") && Contains("install"));
  CHECK(refused.nothing_is_left());
  return true;
}

std::set<std::string> lines_of(const RunningLauncher& launcher) {
  std::set<std::string> lines;
  for (const std::string& line : launcher.output_lines()) lines.insert(line.substr(line.find(": ") + 2));
  return lines;
}

/// How many ranks can have a core of their own here.
std::size_t cores_here() {
  std::size_t ranks = 0;
  for (bool fits = true; fits && ranks < 64;) {
    RunningLauncher plan(
        {.arguments = {"-np", std::to_string(ranks + 1), "--bind-to", "core", "--dry-run", "true"}});
    fits = plan.wait() == 0;
    if (fits) ++ranks;
  }
  return ranks;
}

}  // namespace

TEST_CASE("each rank runs on a core of its own, and one more than there are is refused") {
  if (without_hwloc()) return;
  const std::size_t cores = cores_here();
  REQUIRE(cores >= 1);
  RunningLauncher bound(
      {.arguments = {"-np", std::to_string(cores), "-v", "--bind-to", "core", "sh", "-c", kShowCores}});
  REQUIRE(bound.wait() == 0);
  const auto sets = lines_of(bound);
  CHECK(sets.size() == cores);
  for (const std::string& set : sets)
    CHECK_THAT(bound.error(), Contains(", bound to cpus " + set.substr(set.find('=') + 1) + "\n"));
  RunningLauncher refused(
      {.arguments = {"-np", std::to_string(cores + 1), "--bind-to", "core", "sh", "-c", "echo ran"}});
  CHECK(refused.wait() == 255);
  CHECK(refused.output().empty());
  CHECK_THAT(refused.error(),
             Contains(fmt::format("{} ranks", cores + 1)) && Contains("core:overload-allowed"));
  RunningLauncher shared({.arguments = {"-np", std::to_string(cores + 1), "--bind-to",
                                        "core:overload-allowed", "sh", "-c", kShowCores}});
  CHECK(shared.wait() == 0);
  CHECK(lines_of(shared) == sets);
}

TEST_CASE("a host binds its ranks to what its agent may use, be it less than the machine has") {
  if (without_hwloc()) return;
  const std::string last = std::to_string(allowed_cpus().back());
  const StubSsh ssh = StubSsh::with_body(
      "exec env -i PATH=/usr/bin:/bin HOME=/var/empty RONDEL_TEST_MARK=\"$RONDEL_TEST_MARK\" taskset -c " +
      last + " sh -c \"$command\"");
  RunningLauncher bound(
      ssh.setup({.arguments = {"-H", "far", "-v", "--bind-to", "core", "sh", "-c", kShowCores}}));
  REQUIRE(bound.wait() == 0);
  CHECK(lines_of(bound) == std::set<std::string>{"cpus=" + last});
  CHECK_THAT(bound.error(), Contains("on far, bound to cpus " + last));
  RunningLauncher refused(ssh.setup({.arguments = {"-H", "far:2", "--bind-to", "core", "true"}}));
  CHECK(refused.wait() == 255);
  CHECK_THAT(refused.error(), Contains("host far: --bind-to core: 2 ranks, but only 1 core"));
}
