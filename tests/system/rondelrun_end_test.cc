// SPDX-License-Identifier: Apache-2.0
// How a job ends: failures, signals, time-outs, the launcher's own death. After each, nothing of the job is
// left.
#include <fmt/format.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <string>

#include "tests/system/rondelrun_process.h"
#include "tests/system/rondelrun_support.h"

using Catch::Matchers::Contains;
using rondel::test::Gate;
using rondel::test::kHelper;
using rondel::test::RunningLauncher;

namespace {

/// Runs 4 ranks, of which rank 2 ends in the given way once all are there.
struct Failure {
  explicit Failure(const std::string& way) {
    RunningLauncher launcher({.arguments = {"-np", "4", kHelper, "fail", "2", way, gate.path()}});
    REQUIRE(launcher.wait_for_output("ready", 4));
    gate.release();
    const double before = launcher.seconds();
    code = launcher.wait();
    seconds = launcher.seconds() - before;
    error = launcher.error();
    clean = launcher.nothing_is_left();
  }
  Gate gate;
  int code = 0;
  double seconds = 0;
  std::string error;
  bool clean = false;
};

}  // namespace

TEST_CASE("the first rank to fail ends the job with its code and its last words") {
  const Failure failure("7");
  CHECK(failure.code == 7);
  CHECK(failure.seconds < 5);
  CHECK(failure.clean);
  CHECK_THAT(failure.error, Contains("rank 2 failed first: exit code 7") &&
                                Contains("    ValueError: rank 2 is unhappy") &&
                                Contains("stopped by launcher (SIGTERM)"));
}

TEST_CASE("a rank that aborts ends the job with 134, not with the signal of the clean-up") {
  const Failure failure("abort");
  CHECK(failure.code == 134);
  CHECK(failure.clean);
  CHECK_THAT(failure.error, Contains("killed by signal 6 (SIGABRT)") && Contains("about to abort"));
}

TEST_CASE("a rank that is killed from outside is told apart") {
  const Failure failure("kill");
  CHECK(failure.code == 137);
  CHECK(failure.clean);
  CHECK_THAT(failure.error, Contains("killed by signal 9 (SIGKILL), maybe out of memory"));
}

TEST_CASE("ranks that ignore SIGTERM are killed after the grace") {
  RunningLauncher launcher({.arguments = {"-np", "3", "--kill-grace", "0.3", kHelper, "stubborn"}});
  REQUIRE(launcher.wait_for_output("ready", 3));
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("every ending signal ends the job with 128 and its number") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    RunningLauncher launcher({.arguments = {"-np", "2", kHelper, "signals"}});
    REQUIRE(launcher.wait_for_output("ready", 2));
    launcher.signal(number);
    CHECK(launcher.wait() == 128 + number);
    CHECK(launcher.nothing_is_left());
    CHECK_THAT(launcher.output(), Contains(fmt::format("[0]<stdout>: got {}", SIGTERM)));
  }
}

TEST_CASE("Ctrl-C on a terminal ends the job, a second one at once") {
  RunningLauncher once({.arguments = {"-np", "2", kHelper, "signals"}, .terminal = true});
  REQUIRE(once.wait_for_output("ready", 2));
  once.type("\x03");
  CHECK(once.wait() == 130);
  CHECK(once.nothing_is_left());

  RunningLauncher twice(
      {.arguments = {"-np", "2", "--kill-grace", "1000", kHelper, "stubborn"}, .terminal = true});
  REQUIRE(twice.wait_for_output("ready", 2));
  twice.type("\x03");
  REQUIRE(twice.wait_for_output("once more kills them"));
  twice.type("\x03");
  CHECK(twice.wait() == 130);
  CHECK(twice.nothing_is_left());
}

TEST_CASE("under nohup a hang-up changes nothing") {
  Gate gate;
  RunningLauncher launcher(
      {.arguments = {"-np", "1", kHelper, "fail", "0", "0", gate.path()}, .ignore_hangup = true});
  REQUIRE(launcher.wait_for_output("ready", 1));
  launcher.signal(SIGHUP);
  gate.release();
  CHECK(launcher.wait() == 0);
}

TEST_CASE("user signals are passed on") {
  RunningLauncher launcher({.arguments = {"-np", "2", kHelper, "signals"}});
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGUSR1);
  CHECK(launcher.wait_for_output(fmt::format("got {}\n", SIGUSR1), 2));
  launcher.signal(SIGUSR2);
  CHECK(launcher.wait_for_output(fmt::format("got {}\n", SIGUSR2), 2));
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
}

TEST_CASE("Ctrl-Z stops the ranks with the launcher, and they go on with it") {
  RunningLauncher launcher({.arguments = {"-np", "2", kHelper, "signals"}});
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGTSTP);
  CHECK(launcher.wait_for_stopped(3));
  launcher.signal(SIGCONT);
  CHECK(launcher.wait_for_stopped(0));
  launcher.signal(SIGUSR1);
  CHECK(launcher.wait_for_output(fmt::format("got {}\n", SIGUSR1), 2));
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
}

TEST_CASE("a job that runs too long ends with 124") {
  RunningLauncher launcher({.arguments = {"-np", "2", "--timeout", "0.2", kHelper, "signals"}});
  CHECK(launcher.wait() == 124);
  CHECK_THAT(launcher.error(), Contains("--timeout 0.2 s") && Contains("stopped by launcher"));
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("a killed launcher leaves no rank and no child of a rank behind") {
  for (const char* way : {"stubborn", "family"}) {
    RunningLauncher launcher({.arguments = {"-np", "2", "--kill-grace", "0.3", kHelper, way, "wait"}});
    REQUIRE(launcher.wait_for_output("ready", 2));
    launcher.signal(SIGKILL);
    CHECK(launcher.wait() == 1000 + SIGKILL);
    CHECK(launcher.nothing_is_left());
  }
}

TEST_CASE("what ranks leave running ends with the job, good or bad") {
  for (const char* code : {"0", "5"}) {
    RunningLauncher launcher({.arguments = {"-np", "2", "--kill-grace", "0.3", kHelper, "family", code}});
    CHECK(launcher.wait() == std::stoi(code));
    CHECK(launcher.nothing_is_left());
  }
}

TEST_CASE("only the job's own processes are signalled") {
  RunningLauncher bystander({.arguments = {"-np", "1", kHelper, "signals"}});
  REQUIRE(bystander.wait_for_output("ready", 1));
  RunningLauncher launcher({.arguments = {"-np", "2", "--timeout", "0.1", kHelper, "signals"}});
  CHECK(launcher.wait() == 124);
  CHECK(launcher.nothing_is_left());
  CHECK(bystander.processes().size() == 4);  // launcher, agent, guardian, rank
  bystander.signal(SIGTERM);
  CHECK(bystander.wait() == 143);
  CHECK_THAT(bystander.output(), !Contains(fmt::format("got {}\n[0]<stdout>: got", SIGTERM)));
}

TEST_CASE("a rank that is done early lets the others work") {
  Gate gate;
  RunningLauncher launcher({.arguments = {"-np", "3", kHelper, "early", gate.path()}});
  REQUIRE(launcher.wait_for_processes(4));  // launcher, agent, guardian, rank 1
  gate.release();
  CHECK(launcher.wait() == 0);
  CHECK(launcher.output() == "[1]<stdout>: the end\n");
  CHECK(launcher.error().empty());
}

TEST_CASE("a guardian that is stopped does not outlive its job") {
  const Gate gate;
  RunningLauncher launcher({.arguments = {"-np", "1", kHelper, "fail", "0", "0", gate.path()}});
  REQUIRE(launcher.wait_for_output("ready"));
  int stopped = 0;
  // It is forked before the rank, but may get its name later.
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       stopped == 0 && std::chrono::steady_clock::now() < end;) {
    for (const pid_t pid : launcher.processes()) {
      std::string name;
      std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
      if (name == "rondelrun-guard") stopped += ::kill(pid, SIGSTOP) == 0;
    }
  }
  CHECK(stopped == 1);
  gate.release();
  CHECK(launcher.wait() == 0);
  CHECK(launcher.nothing_is_left());
}
