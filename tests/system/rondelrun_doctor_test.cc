// SPDX-License-Identifier: Apache-2.0
// rondelrun doctor as far as a stub in place of ssh can show: that it examines hosts, what it says of those
// that it can not examine, and that it ends.
#include <fmt/format.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/system/stub_ssh.h"

using Catch::Matchers::Contains;
using nlohmann::json;
using rondel::test::LaunchSetup;
using rondel::test::RunningLauncher;
using rondel::test::StubSsh;

namespace {

using Words = std::vector<std::string>;

/// Behind the word itself, as StubSsh::setup() puts its own words first.
LaunchSetup doctor(const StubSsh& ssh, Words arguments) {
  LaunchSetup setup = ssh.setup({.arguments = std::move(arguments)});
  setup.arguments.insert(setup.arguments.begin(), "doctor");
  return setup;
}

/// The stub's usual way in.
constexpr const char* kLogIn =
    R"(exec env -i PATH=/usr/bin:/bin RONDEL_TEST_MARK="$RONDEL_TEST_MARK" sh -c "$command")";

std::string words_of(const std::string& page) {
  std::string out;
  for (const char c : page)
    if ((c != ' ' && c != '\n') || (!out.empty() && out.back() != ' ')) out += c == '\n' ? ' ' : c;
  return out;
}

json report_of(const RunningLauncher& launcher) {
  INFO(launcher.output());
  json report = json::parse(launcher.output(), nullptr, false);
  REQUIRE(report.is_object());
  return report;
}

}  // namespace

TEST_CASE("hosts are examined over ssh, and find one another") {
  const StubSsh ssh;
  RunningLauncher launcher(doctor(ssh, {"-H", "a:2,b,localhost", "--json"}));
  REQUIRE(launcher.wait() == 0);
  const json report = report_of(launcher);
  CHECK(report["ok"] == true);
  REQUIRE(report["hosts"].size() == 3);
  CHECK(report["hosts"][0]["host"] == "a");
  CHECK(report["hosts"][0]["ranks"] == 2);
  CHECK(report["hosts"][2]["launcher"] == true);
  for (const auto& host : report["hosts"]) {
    CHECK(host["facts"]["usable_cores"] > 0);
    CHECK(host["clock_ahead_s"].is_number());
  }
  CHECK(report["hosts"][0]["to_launcher"][0]["reached"] == true);
  REQUIRE(report["pairs"].size() == 6);
  for (const auto& pair : report["pairs"]) CHECK(pair["measured"]["bits_per_second"] > 0);
  CHECK_THAT(words_of(report["problems"].dump()), Contains("are one machine"));
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("without hosts it examines this one") {
  const StubSsh ssh;
  RunningLauncher launcher({.arguments = {"doctor"}});
  CHECK(launcher.wait() == 0);
  CHECK_THAT(launcher.output(), Contains("1 host, ") && Contains("next: ") && Contains(" -np "));
  CHECK(ssh.words().empty());
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("what a host says that is no report is refused, and hides nothing of the others") {
  // The agent itself greets, and leaves as nobody speaks to it; what follows is not its own.
  const std::string head = "if [ $host = b ]; then sh -c \"$command\" </dev/null; ";
  const std::string tail = std::string("; exec cat >/dev/null; fi; ") + kLogIn;
  for (const char* sends : {R"(printf "\004\000\000\000zzzz")", R"(printf "\377\377\377\377")",
                            R"(printf "\001\000\000\000\010")", "head -c 100000 /dev/urandom"}) {
    const StubSsh ssh = StubSsh::with_body(head + sends + tail);
    RunningLauncher launcher(doctor(ssh, {"-H", "a,b,c", "--json"}));
    INFO(sends);
    REQUIRE(launcher.wait() == 1);
    const json report = report_of(launcher);
    CHECK(report["hosts"][0]["facts"].is_object());
    CHECK(report["hosts"][1]["lost"].is_string());
    CHECK(report["hosts"][2]["facts"].is_object());
    CHECK(report["problems"][0]["hosts"] == json::array({"b"}));
    CHECK(launcher.nothing_is_left());
  }
}

TEST_CASE("a host with too few open files, one that is not there, and one that ends in the middle") {
  const StubSsh ssh = StubSsh::with_body(
      fmt::format("case $host in few) ulimit -n 40;; gone) echo 'ssh: connect to host gone port 22: "
                  "Connection refused' >&2; "
                  "exit 255;; dies) sh -c \"$command\" & sleep 0.5; kill -9 $!; exit 255;; esac; {}",
                  kLogIn));
  RunningLauncher launcher(doctor(ssh, {"-H", "well,few:8,gone,dies"}));
  CHECK(launcher.wait() == 1);
  const std::string page = words_of(launcher.output());
  CHECK_THAT(page,
             Contains("ERROR few: a process may have 40 open files at most; starting 8 ranks takes 48"));
  CHECK_THAT(page, Contains("ERROR gone: nothing answers ssh on that port"));
  CHECK_THAT(page, Contains("ERROR dies: "));
  CHECK_THAT(page, Contains("1 well 1 ") && !Contains("next:"));
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("Ctrl-C ends it at any time, with what is known by then") {
  const StubSsh ssh = StubSsh::with_body(fmt::format("[ $host = slow ] && exec sleep 60; {}", kLogIn));
  LaunchSetup setup = doctor(ssh, {"-v", "-H", "quick,slow"});
  RunningLauncher launcher(setup);
  REQUIRE(launcher.wait_for_error("host quick calls itself"));
  launcher.signal(SIGINT);
  CHECK(launcher.wait() == 130);
  CHECK_THAT(words_of(launcher.output()), Contains("stopped by SIGINT before the end") && Contains("quick"));
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("--timeout bounds an examination, and a host that never answers is named by itself") {
  const StubSsh ssh = StubSsh::with_body(fmt::format("[ $host = slow ] && exec sleep 60; {}", kLogIn));
  RunningLauncher bounded(doctor(ssh, {"--timeout", "1", "-H", "quick,slow"}));
  CHECK(bounded.wait() == 124);
  CHECK_THAT(bounded.output(), Contains("stopped by --timeout"));
  CHECK(bounded.nothing_is_left());
  RunningLauncher patient(doctor(ssh, {"--start-timeout", "1", "-H", "quick,slow"}));
  CHECK(patient.wait() == 1);
  CHECK_THAT(words_of(patient.output()), Contains("ERROR slow: no agent began to speak within"));
  CHECK(patient.nothing_is_left());
}

TEST_CASE("Ctrl-Z holds an examination, and it goes on") {
  const StubSsh ssh;
  RunningLauncher launcher(doctor(ssh, {"-v", "-H", "a,b,c"}));
  REQUIRE(launcher.wait_for_error("host a calls itself"));
  launcher.signal(SIGTSTP);
  REQUIRE(launcher.wait_for_stopped(1));
  launcher.signal(SIGCONT);
  CHECK(launcher.wait() == 0);
}

TEST_CASE("a job's own words may follow: they are how to go on") {
  const StubSsh ssh;
  RunningLauncher launcher(doctor(ssh, {"-H", "a:2", "./train", "--epochs", "3"}));
  CHECK(launcher.wait() == 0);
  CHECK_THAT(launcher.output(), Contains("-H a:2 ./train --epochs 3\n"));
}

TEST_CASE("what is wrong with the command line is said as for a job") {
  for (const Words& words :
       {Words{"doctor", "-H", "a b"}, Words{"doctor", "--no-such"}, Words{"doctor", "-H", "a", "-f", "b"}}) {
    RunningLauncher launcher({.arguments = words});
    CHECK(launcher.wait() == 2);
    CHECK(launcher.output().empty());
    CHECK_THAT(launcher.error(), Contains("rondelrun: "));
  }
}
