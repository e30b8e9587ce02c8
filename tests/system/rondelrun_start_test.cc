// SPDX-License-Identifier: Apache-2.0
// What a rank is given, and what happens when it cannot be started.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "lib/host_identity.h"
#include "tests/lib/temporary_directory.h"
#include "tests/system/rondelrun_process.h"
#include "tests/system/rondelrun_support.h"

using Catch::Matchers::Contains;
using rondel::test::file_text;
using rondel::test::kHelper;
using rondel::test::kHelperWord;
using rondel::test::RunningLauncher;
using rondel::test::TemporaryFolder;

namespace {

using Facts = std::map<std::string, std::string>;

/// The "name=value" lines that each rank printed.
std::map<int, Facts> facts_of(const RunningLauncher& launcher) {
  std::map<int, Facts> facts;
  for (const std::string& line : launcher.output_lines()) {
    const auto colon = line.find(": "), equals = line.find('=');
    REQUIRE(equals != std::string::npos);
    facts[std::stoi(line.substr(1))][line.substr(colon + 2, equals - colon - 2)] = line.substr(equals + 1);
  }
  return facts;
}

int run_for_code(std::vector<std::string> arguments, std::string& error, int descriptor_limit = 0) {
  RunningLauncher launcher({.arguments = std::move(arguments), .descriptor_limit = descriptor_limit});
  const int code = launcher.wait();
  error = launcher.error();
  CHECK(launcher.nothing_is_left());
  return code;
}

}  // namespace

TEST_CASE("each rank learns who and where it is") {
  RunningLauncher launcher(
      {.arguments = {"-np", "3", "-x", "ODD_VALUE=a b=\"$c\"", kHelper, "report", "-np", "x y"},
       .input = "typed"});
  REQUIRE(launcher.wait() == 0);
  const auto facts = facts_of(launcher);
  REQUIRE(facts.size() == 3);
  std::set<std::string> shared;
  for (const auto& [rank, fact] : facts) {
    for (const char* name : {"RONDEL_RANK", "RANK", "RONDEL_LOCAL_RANK", "LOCAL_RANK"})
      CHECK(fact.at(name) == std::to_string(rank));
    for (const char* name : {"RONDEL_SIZE", "WORLD_SIZE", "RONDEL_LOCAL_SIZE", "LOCAL_WORLD_SIZE"})
      CHECK(fact.at(name) == "3");
    CHECK(fact.at("MASTER_ADDR") == "127.0.0.1");
    CHECK(fact.at("RONDEL_STORE") != "tcp://127.0.0.1:" + fact.at("MASTER_PORT"));
    CHECK(fact.at("ODD_VALUE") == "a b=\"$c\"");
    CHECK(fact.at("secret").size() == 64);
    CHECK(fact.at("stdin") == (rank == 0 ? "typed" : ""));
    CHECK(fact.at("word") == "x y");
    CHECK(fact.at("blocked") == "0");
    CHECK(fact.at("descriptors") == "4");  // the standard three and the secret
    shared.insert(fact.at("secret") + fact.at("RONDEL_STORE") + fact.at("MASTER_PORT"));
  }
  CHECK(shared.size() == 1);
}

TEST_CASE("ranks run on the cores of the launcher, in its directory or the one asked for") {
  cpu_set_t cores;
  REQUIRE(::sched_getaffinity(0, sizeof cores, &cores) == 0);
  const TemporaryFolder folder;
  RunningLauncher here({.arguments = {"-np", "2", kHelper, "report"}});
  REQUIRE(here.wait() == 0);
  CHECK(facts_of(here).at(1).at("cores") == std::to_string(CPU_COUNT(&cores)));
  CHECK(facts_of(here).at(1).at("directory") == std::filesystem::current_path());
  RunningLauncher there({.arguments = {"-np", "2", "--wdir", folder.path(), kHelper, "report"}});
  REQUIRE(there.wait() == 0);
  CHECK(facts_of(there).at(1).at("directory") == std::filesystem::canonical(folder.path()));
}

TEST_CASE("more ranks than cores share those that the launcher may use, and nobody is bound") {
  cpu_set_t all, one;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  RunningLauncher launcher({.arguments = {"-v", "-np", "4", kHelper, "report"}});
  const int code = launcher.wait();
  REQUIRE(::sched_setaffinity(0, sizeof all, &all) == 0);
  CHECK(code == 0);
  for (const auto& [rank, facts] : facts_of(launcher)) CHECK(facts.at("cores") == "1");
  CHECK_THAT(launcher.error(), Contains("4 ranks share 1 cores"));
}

TEST_CASE("hosts that are this one start a rank for each slot, however they are named") {
  RunningLauncher list({.arguments = {"-H", "localhost:1,127.0.0.1:2", "-H", "[::1]", kHelper, "report"}});
  REQUIRE(list.wait() == 0);
  const auto facts = facts_of(list);
  REQUIRE(facts.size() == 4);
  CHECK(facts.at(3).at("LOCAL_RANK") == "3");
  CHECK(facts.at(3).at("LOCAL_WORLD_SIZE") == "4");
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/hosts";
  std::ofstream(path) << "# two\r\nlocalhost slots = 2 max_slots=4\r\n";
  RunningLauncher file({.arguments = {"-hostfile", path, kHelper, "report"}});
  REQUIRE(file.wait() == 0);
  CHECK(facts_of(file).size() == 2);
  CHECK_THAT(file.error(), Contains(path + ":2: max_slots has no effect"));
}

TEST_CASE("the standard input can go to another rank or to none") {
  RunningLauncher last({.arguments = {"-np", "2", "--stdin", "1", kHelper, "report"}, .input = "for one"});
  REQUIRE(last.wait() == 0);
  CHECK(facts_of(last).at(0).at("stdin").empty());
  CHECK(facts_of(last).at(1).at("stdin") == "for one");
  RunningLauncher none({.arguments = {"-np", "1", "--stdin", "none", kHelper, "report"}, .input = "unread"});
  REQUIRE(none.wait() == 0);
  CHECK(facts_of(none).at(0).at("stdin").empty());
}

TEST_CASE("the job secret is in no argument, environment or output of the launcher") {
  RunningLauncher launcher(
      {.arguments = {"-np", "1", "-v", "sh", "-c", kHelperWord + " report; exec " + kHelperWord + " signals"},
       .environment = {"RONDEL_LOG=trace"}});
  REQUIRE(launcher.wait_for_output("ready"));
  const std::string report = launcher.output();
  const std::string hex = report.substr(report.find("secret=") + 7, 64);
  REQUIRE(hex.find_first_not_of("0123456789abcdef") == std::string::npos);
  std::string raw;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    raw += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  for (const pid_t process : launcher.processes())
    for (const char* file : {"cmdline", "environ"}) {
      const std::string text = file_text(fmt::format("/proc/{}/{}", process, file));
      CHECK(text.find(hex) == std::string::npos);
      CHECK(text.find(raw) == std::string::npos);
    }
  CHECK(launcher.error().find(hex) == std::string::npos);
  CHECK(launcher.error().find(raw) == std::string::npos);
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
}

TEST_CASE("the store listens on the loopback address only") {
  RunningLauncher launcher(
      {.arguments = {"-np", "1", "sh", "-c", "echo store=$RONDEL_STORE; exec " + kHelperWord + " signals"}});
  REQUIRE(launcher.wait_for_output("ready"));
  const std::string& text = launcher.output();
  const auto at = text.find("tcp://127.0.0.1:");
  REQUIRE(at != std::string::npos);
  const std::string suffix = fmt::format(":{:04X}", std::stoi(text.substr(at + 16)));
  int listeners = 0;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream rows(file_text(table));
    for (std::string row; std::getline(rows, row);) {
      std::istringstream fields(row);
      std::string number, local, remote, state;
      fields >> number >> local >> remote >> state;
      if (state != "0A" || !local.ends_with(suffix)) continue;
      ++listeners;
      CHECK(local == "0100007F" + suffix);
    }
  }
  CHECK(listeners == 1);
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
}

TEST_CASE("a rank that cannot be started is a launch failure with its reason") {
  std::string error;
  CHECK(run_for_code({"-np", "2", "no-such-program-anywhere"}, error) == 255);
  CHECK_THAT(error, Contains("rank 0") && Contains("no-such-program-anywhere") && Contains("PATH"));
  CHECK(run_for_code({"-np", "2", "/etc/passwd"}, error) == 255);
  CHECK_THAT(error, Contains("/etc/passwd") && Contains("chmod +x"));
  CHECK(run_for_code({"-np", "2", "--wdir", "/no/such/place", "true"}, error) == 255);
  CHECK_THAT(error, Contains("/no/such/place") && Contains("--wdir"));
  CHECK(run_for_code({"-np", "2", "--output-filename", "/proc/nowhere", kHelper, "signals"}, error) == 255);
  CHECK_THAT(error, Contains("/proc/nowhere"));
}

TEST_CASE("too few descriptors: the limit, what is needed and the command are named; enough is enough") {
  std::string error;
  CHECK(run_for_code({"-np", "64", "true"}, error, 64) == 255);
  CHECK_THAT(error, Contains("the limit is 64") && Contains("156") && Contains("ulimit -n"));
  CHECK(run_for_code({"-np", "10", kHelper, "join", "10", "leave"}, error, 64) == 0);
}

TEST_CASE("ranks that do not join while others have are named") {
  RunningLauncher launcher({.arguments = {"-np", "4", "--start-timeout", "0.3", kHelper, "join", "2"}});
  CHECK(launcher.wait_for_error("2 of 4 ranks have joined"));
  CHECK_THAT(launcher.error(), Contains("still missing 0.2 s after the first one: ranks 2, 3"));
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
}

TEST_CASE("the last words of ranks that do not join are told, and that they have ended") {
  const std::string script =
      "[ $RANK != 2 ] || { echo earlier >&2; echo loading the data >&2; printf 'half a line' >&2; "
      "exec " +
      kHelperWord + " join 0; }; [ $RANK != 3 ] || exit 0; exec " + kHelperWord + " join 2";
  RunningLauncher launcher({.arguments = {"-np", "4", "--start-timeout", "2", "sh", "-c", script}});
  CHECK(launcher.wait_for_error("still missing 1.5 s after the first one: ranks 2, 3"));
  CHECK(launcher.wait_for_error("rank 3 on " + rondel::host_name() + ": exit code 0"));
  CHECK_THAT(launcher.error(),
             Contains("rank 2 on " + rondel::host_name() + ": still running\n") &&
                 Contains("rondelrun:     loading the data\nrondelrun:     half a line\n") &&
                 !Contains("rondelrun:     earlier"));
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
}

#ifdef SECRET_RANK_PATH
TEST_CASE("who is missing is told although the patience of the others ends the job") {
  const rondel::test::TemporaryDirectory folder;
  const std::string script =
      "[ $RANK = 0 ] || { echo stuck in the data >&2; exec sleep 60; }; exec '" SECRET_RANK_PATH "' " +
      folder.path() + "/note x";
  std::string error;
  CHECK(run_for_code({"-np", "2", "--start-timeout", "1", "--kill-grace", "1", "sh", "-c", script}, error) ==
        3);
  CHECK_THAT(error, Contains("still missing 0.8 s after the first one: rank 1") &&
                        Contains(": still running\n") && Contains("rondelrun:     stuck in the data\n"));
}
#endif

TEST_CASE("wrong command lines and settings are usage errors") {
  std::string error;
  CHECK(run_for_code({"-np", "2", "--timout", "3", "true"}, error) == 2);
  CHECK_THAT(error, Contains("did you mean --timeout?"));
  CHECK(run_for_code({"-np", "2", "-H", "a,b", "-p", "0", "true"}, error) == 2);
  CHECK_THAT(error, Contains("expected a port from 1 to 65535"));
  CHECK(run_for_code({"--hostfile", "/nope", "true"}, error) == 2);
  CHECK_THAT(error, Contains("/nope") && Contains("No such file or directory"));
  CHECK(run_for_code({"-np", "2", "--stdin", "2", "true"}, error) == 2);
  CHECK_THAT(error, Contains("--stdin") && Contains("0 to 1"));
  CHECK(run_for_code({"true"}, error) == 2);
  CHECK(run_for_code({"-np", "2", "-x", "RONDEL_TIMEOUT_S=never", "true"}, error) == 2);
  CHECK_THAT(error, Contains("RONDEL_TIMEOUT_S"));
}

TEST_CASE("a directory that is gone is refused, instead of ranks in another one") {
  const rondel::test::TemporaryDirectory folder;
  const std::string script =
      "mkdir '" + folder.path() + "/gone' && cd '" + folder.path() + "/gone' && rmdir '" + folder.path() +
      "/gone' && exec '" RONDELRUN_PATH "' -H h1,h2 true 2>'" + folder.path() + "/error'";
  CHECK(WEXITSTATUS(std::system(script.c_str())) == 2);
  CHECK_THAT(file_text(folder.path() + "/error"), Contains("the current directory") && Contains("--wdir"));
}

TEST_CASE("a transport that nobody knows is refused before anything starts") {
  std::string error;
  CHECK(run_for_code({"-np", "2", "--transport", "tpc", "true"}, error) == 2);
  CHECK_THAT(error,
             Contains("there is no transport 'tpc'") && Contains("did you mean tcp?") && Contains("shm+tcp"));
  CHECK(run_for_code({"-np", "2", "-x", "RONDEL_TRANSPORT=rdma", "true"}, error) == 2);
  CHECK(run_for_code({"-np", "2", "-x", "OMP_*=3", "true"}, error) == 2);
  CHECK(run_for_code({"-H", "h1", "-i", "/no/such/key", "true"}, error) == 2);
  CHECK_THAT(error, Contains("-i /no/such/key: No such file"));
}

TEST_CASE("options can be in a file") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/job.conf";
  std::ofstream(path) << "# a job\nnp = 3\nno-tag-output\nx = ODD_VALUE=from the file\n";
  RunningLauncher launcher({.arguments = {"--config-file", path, "sh", "-c", "echo $ODD_VALUE $WORLD_SIZE"}});
  CHECK(launcher.wait() == 0);
  CHECK(launcher.output() == "from the file 3\nfrom the file 3\nfrom the file 3\n");
  std::string error;
  CHECK(run_for_code({"--config-file", folder.path() + "/none", "true"}, error) == 2);
  CHECK_THAT(error, Contains("/none") && Contains("No such file or directory"));
}

TEST_CASE("bash completes options, their values and the program") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/hosts-file") << "a\n";
  const auto complete = [&folder](const std::string& words) {
    RunningLauncher bash(
        {.arguments = {"-np", "1", "--no-tag-output", "--wdir", folder.path(), "bash", "-c",
                       "eval \"$('" RONDELRUN_PATH "' --bash-completion)\"; COMP_WORDS=(rondelrun " + words +
                           "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rondelrun; echo ${COMPREPLY[*]}"}});
    CHECK(bash.wait() == 0);
    CHECK(bash.error().empty());
    return bash.output();
  };
  CHECK(complete("-np 4 --hostf") == "--hostfile\n");
  CHECK_THAT(complete("--"), Contains("--tag-output") && Contains("--ssh-arg") && !Contains("--agent"));
  CHECK(complete("-hostfile hos") == "hosts-file\n");
  CHECK(complete("--hostfile = hos") == "hosts-file\n");
  CHECK(complete("--map-by no") == "node\n");
  CHECK(complete("-np ''") == "\n");
  CHECK_THAT(complete("-np 4 bas"), Contains("bash"));
  CHECK(complete("-np 4 --mca a b cat hos") == "hosts-file\n");
  CHECK_THAT(complete("docto"), Contains("doctor"));
  CHECK(complete("doctor -H a --hostf") == "--hostfile\n");
}

TEST_CASE("the informing options answer and start nothing") {
  for (const auto& [option, text] : std::map<std::string, std::string>{{"--version", "rondelrun "},
                                                                       {"--help", "usage: rondelrun -np N"},
                                                                       {"--help-config", "RONDEL_TIMEOUT_S"},
                                                                       {"--check-build", "tcp"},
                                                                       {"--man-page", ".TH"}}) {
    RunningLauncher launcher({.arguments = {option}});
    CHECK(launcher.wait() == 0);
    CHECK_THAT(launcher.output(), Contains(text));
  }
  for (const std::string option : {"--version", "--help", "--help-config", "--check-build"}) {
    INFO(option);
    const std::string full = "exec '" RONDELRUN_PATH "' " + option + " >/dev/full";
    RunningLauncher launcher({.arguments = {"-np", "1", "sh", "-c", full}});
    CHECK(launcher.wait() == 1);
    CHECK_THAT(launcher.error(), Contains("writing to standard output: No space left on device"));
  }
  RunningLauncher mistyped({.arguments = {"--check-build"}, .environment = {"RONDEL_TIMOUT_S=3"}});
  CHECK(mistyped.wait() == 0);
  CHECK_THAT(mistyped.error(), Contains("RONDEL_TIMOUT_S") && Contains("did you mean RONDEL_TIMEOUT_S?"));
  RunningLauncher dry({.arguments = {"-np", "2", "--dry-run", "no-such-program-anywhere"}});
  CHECK(dry.wait() == 0);
  CHECK_THAT(dry.output(), Contains("no-such-program-anywhere"));
}
