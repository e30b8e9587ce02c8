// SPDX-License-Identifier: Apache-2.0
// Ranks on other hosts with a stub in place of ssh: their output and input, and how such a job ends. After
// each, nothing of the job is left.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitizers.h"
#include "tests/system/stub_ssh.h"

using Catch::Matchers::Contains;
using rondel::test::file_text;
using rondel::test::Gate;
using rondel::test::kHelper;
using rondel::test::RunningLauncher;
using rondel::test::StubSsh;
using rondel::test::TemporaryFolder;

namespace {

/// An agent that ssh has started; its guardian has another name.
pid_t agent_of(const RunningLauncher& launcher) {
  for (const pid_t process : launcher.processes())
    if (file_text(fmt::format("/proc/{}/comm", process)) == "rondelrun\n" && process != launcher.pid())
      return process;
  FAIL("no agent");
  return -1;
}

std::string numbered_text(std::size_t bytes, unsigned& sum) {
  std::string text;
  for (std::size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i) + "\n";
  sum = 0;
  for (const char c : text) sum = sum * 31 + static_cast<unsigned char>(c);
  return text;
}

}  // namespace

TEST_CASE("10,000 lines of each of 8 ranks on 4 hosts: each line whole, tagged once, in order") {
  const StubSsh ssh;
  RunningLauncher launcher(
      ssh.setup({.arguments = {"-H", "a:2,b:2,c:2,localhost:2", kHelper, "lines", "10000"}}));
  CHECK(launcher.wait() == 0);
  std::vector<int> next(8, 0);
  for (const std::string& line : launcher.output_lines()) {
    int tag = -1, number = -1, rank = -1, used = 0;
    const int fields =
        std::sscanf(line.c_str(), "[%d]<stdout>: line %d of rank %d%n", &tag, &number, &rank, &used);
    INFO(line);
    REQUIRE((fields == 3 && static_cast<std::size_t>(used) == line.size()));
    REQUIRE((tag == rank && rank >= 0 && rank < 8));
    REQUIRE(number == next[static_cast<std::size_t>(rank)]++);
  }
  for (const int each : next) CHECK(each == 10'000);
}

TEST_CASE("standard input reaches a rank elsewhere whole, from a pipe or a file") {
  const StubSsh ssh;
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/input";
  unsigned sum = 0;
  const std::string text = numbered_text(3'000'000, sum);
  std::ofstream(file, std::ios::binary) << text;
  for (const char* way : {"exec '{}' --net lo -H a,b --stdin 1 '{}' input <'{}'",
                          "cat '{2}' | '{0}' --net lo -H a,b --stdin 1 '{1}' input"}) {
    RunningLauncher launcher(
        ssh.setup({.arguments = {"-np", "1", "--no-tag-output", "sh", "-c",
                                 fmt::format(fmt::runtime(way), RONDELRUN_PATH, kHelper, file)}}));
    CHECK(launcher.wait() == 0);
    CHECK_THAT(launcher.output(), Contains("[0]<stdout>: bytes=0") &&
                                      Contains(fmt::format("[1]<stdout>: bytes={}", text.size())) &&
                                      Contains(fmt::format("[1]<stdout>: sum={}", sum)));
  }
}

TEST_CASE("a rank that does not read its input holds nobody up") {
  const StubSsh ssh;
  unsigned sum = 0;
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/input") << numbered_text(2'000'000, sum);
  RunningLauncher launcher(
      ssh.setup({.arguments = {"-np", "1", "sh", "-c",
                               fmt::format("exec '{}' --net lo -H a sh -c 'sleep 0.2; echo done' <'{}'",
                                           RONDELRUN_PATH, folder.path() + "/input")}}));
  CHECK(launcher.wait() == 0);
  CHECK_THAT(launcher.output(), Contains("done"));
}

TEST_CASE("a reader that does not read costs no memory on either side") {
  const StubSsh ssh;
  RunningLauncher launcher(ssh.setup({.arguments = {"-H", "a:2", kHelper, "endless"}}));
  REQUIRE(launcher.wait_until_idle());
#if UNDER_ADDRESS_SANITIZER
  constexpr std::size_t kMuch = 256 << 20;  // its shadow and quarantine are in there
#else
  constexpr std::size_t kMuch = 64 << 20;
#endif
  CHECK(launcher.resident_bytes() < kMuch);
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("a failure on one host ends the ranks of all, and the report names hosts") {
  const StubSsh ssh;
  Gate gate;
  RunningLauncher launcher(
      ssh.setup({.arguments = {"-H", "a:2,b:2,localhost:1", kHelper, "fail", "3", "7", gate.path()}}));
  REQUIRE(launcher.wait_for_output("ready", 5));
  gate.release();
  CHECK(launcher.wait() == 7);
  CHECK_THAT(launcher.error(), Contains("rank 3 on b: exit code 7; stopping the others") &&
                                   Contains("rank 3 failed first: exit code 7") &&
                                   Contains("    ValueError: rank 3 is unhappy") && Contains("  0  a  ") &&
                                   Contains("stopped by launcher (SIGTERM)"));
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("signals reach the ranks of other hosts; a second one kills") {
  const StubSsh ssh;
  RunningLauncher launcher(ssh.setup({.arguments = {"-H", "a,b", kHelper, "signals"}}));
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGUSR1);
  CHECK(launcher.wait_for_output(fmt::format("got {}\n", SIGUSR1), 2));
  launcher.signal(SIGINT);
  CHECK(launcher.wait() == 130);
  CHECK(launcher.nothing_is_left());
  RunningLauncher stubborn(
      ssh.setup({.arguments = {"-H", "a,b", "--kill-grace", "1000", kHelper, "stubborn"}}));
  REQUIRE(stubborn.wait_for_output("ready", 2));
  stubborn.signal(SIGTERM);
  REQUIRE(stubborn.wait_for_error("once more kills them"));
  stubborn.signal(SIGTERM);
  CHECK(stubborn.wait() == 143);
  CHECK(stubborn.nothing_is_left());
}

TEST_CASE("Ctrl-C on a terminal is for the launcher: ssh is not ended by it, and no host is lost") {
  const StubSsh ssh;
  RunningLauncher launcher(ssh.setup({.arguments = {"-H", "a,b", kHelper, "signals"}, .terminal = true}));
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.type("\x03");
  CHECK(launcher.wait() == 130);
  CHECK_THAT(launcher.output(), !Contains("lost contact"));
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("Ctrl-Z stops ranks elsewhere, for longer than a launcher may be silent") {
  const StubSsh ssh;
  RunningLauncher launcher(ssh.setup(
      {.arguments = {"-H", "a,b", kHelper, "signals"}, .environment = {"RONDEL_SILENCE_TIMEOUT_S=0.1"}}));
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGTSTP);
  REQUIRE(launcher.wait_for_stopped(3));
  CHECK_FALSE(launcher.ranks_change_within(std::chrono::milliseconds(2'600)));  // silence and two seconds
  launcher.signal(SIGCONT);
  CHECK(launcher.wait_for_stopped(0));
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
}

TEST_CASE("a launcher that falls silent is gone for its agents") {
  const StubSsh ssh;
  RunningLauncher launcher(ssh.setup({.arguments = {"-H", "a,b", "--kill-grace", "0.3", kHelper, "stubborn"},
                                      .environment = {"RONDEL_SILENCE_TIMEOUT_S=0.1"}}));
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGSTOP);
  CHECK(launcher.wait_for_processes(1));  // the launcher
  launcher.signal(SIGCONT);
  CHECK(launcher.wait() == 255);
  CHECK_THAT(launcher.error(), Contains("lost contact with host a (rank 0): this launcher was stopped") &&
                                   Contains("its agent went away"));
}

TEST_CASE("a killed launcher leaves nothing on other hosts") {
  const StubSsh ssh;
  for (const char* way : {"stubborn", "family"}) {
    RunningLauncher launcher(
        ssh.setup({.arguments = {"-H", "a,b", "--kill-grace", "0.3", kHelper, way, "wait"}}));
    REQUIRE(launcher.wait_for_output("ready", 2));
    launcher.signal(SIGKILL);
    CHECK(launcher.wait() == 1000 + SIGKILL);
    CHECK(launcher.nothing_is_left());
  }
}

TEST_CASE("a killed agent is named with its host, and leaves nothing behind") {
  const StubSsh ssh = StubSsh::with_body("sh -c \"$command\"");  // ssh outlives it
  for (const char* way : {"stubborn", "family"}) {
    RunningLauncher launcher(
        ssh.setup({.arguments = {"-H", "a:2", "--kill-grace", "0.3", kHelper, way, "wait"}}));
    REQUIRE(launcher.wait_for_output("ready", 2));
    ::kill(agent_of(launcher), SIGKILL);
    CHECK(launcher.wait() == 255);
    CHECK_THAT(launcher.error(), Contains("lost contact with host a (ranks 0, 1): its agent went away") &&
                                     Contains("lost with its host"));
    CHECK(launcher.nothing_is_left());
  }
}

TEST_CASE("the agent of this host may be killed like the others") {
  RunningLauncher launcher({.arguments = {"-np", "2", "--kill-grace", "0.3", kHelper, "family", "wait"}});
  REQUIRE(launcher.wait_for_output("ready", 2));
  const pid_t agent = [&launcher] {
    for (const pid_t process : launcher.processes())
      if (file_text(fmt::format("/proc/{}/comm", process)) == "rondelrun-agent\n") return process;
    return pid_t{-1};
  }();
  REQUIRE(agent > 0);
  ::kill(agent, SIGKILL);
  CHECK(launcher.wait() == 255);
  CHECK_THAT(launcher.error(), Contains(fmt::format("its agent (process {}) was killed by signal 9", agent)));
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("a killed agent leaves nothing behind, not even what has left session, name and parents") {
  const StubSsh ssh;
  const std::string daemon =
      "env -i /bin/sh -c '(setsid sleep 300 &)'; sleep 0.1; echo ready; exec sleep 300";
  RunningLauncher launcher(
      ssh.setup({.arguments = {"-H", "a:2", "--kill-grace", "0.3", "sh", "-c", daemon}}));
  REQUIRE(launcher.wait_for_output("ready", 2));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // the agent looks once a second
  std::vector<pid_t> daemons;
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", agent_of(launcher)));
  if (!children) {
    WARN("this kernel does not list the children of a process");
    return;
  }
  for (pid_t pid = -1; children >> pid;)
    if (file_text(fmt::format("/proc/{}/comm", pid)) == "sleep\n" && ::getsid(pid) == pid)
      daemons.push_back(pid);
  REQUIRE(daemons.size() >= 2);
  ::kill(agent_of(launcher), SIGKILL);
  CHECK(launcher.wait() == 255);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  const auto living = [&daemons] {
    return std::ranges::any_of(
        daemons, [](pid_t pid) { return file_text(fmt::format("/proc/{}/comm", pid)) == "sleep\n"; });
  };
  while (living() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(living());
}

TEST_CASE("an agent that is asked to end by its own host ends its ranks first") {
  const StubSsh ssh;
  RunningLauncher launcher(ssh.setup({.arguments = {"-H", "a,b", kHelper, "signals"}}));
  REQUIRE(launcher.wait_for_output("ready", 2));
  ::kill(agent_of(launcher), SIGTERM);
  CHECK(launcher.wait_for_output(fmt::format("got {}\n", SIGTERM)));
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
  CHECK(launcher.nothing_is_left());
}
