// SPDX-License-Identifier: Apache-2.0
// Ranks on other hosts, as far as a stub in place of ssh can show: how ssh is called, what a rank is given,
// and what is said when a host can not take part.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "lib/store/socket.h"
#include "tests/lib/temporary_directory.h"
#include "tests/system/stub_ssh.h"

using Catch::Matchers::Contains;
using rondel::test::file_text;
using rondel::test::kHelper;
using rondel::test::RunningLauncher;
using rondel::test::StubSsh;
using rondel::test::TemporaryFolder;

namespace {

using Facts = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

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

std::string hex_of(const std::string& text) {
  std::string out;
  for (const char c : text) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

/// Runs a job on host `other` and says how it ended, and what was said.
int run_for_code(const StubSsh& ssh, Words arguments, std::string& error) {
  arguments.insert(arguments.begin(), {"-H", "other:2"});
  RunningLauncher launcher(ssh.setup({.arguments = std::move(arguments)}));
  const int code = launcher.wait();
  error = launcher.error();
  CHECK(launcher.nothing_is_left());
  return code;
}

bool has_shell(const std::string& shell) {
  for (const char* folder : {"/bin/", "/usr/bin/"})
    if (::access((folder + shell).c_str(), X_OK) == 0) return true;
  WARN("skipped: " << shell << " is not installed");
  return false;
}

/// The build folder may have a space in its path.
std::string in_shell_words(const std::string& path) {
  std::string words;
  for (const char c : path) words += c == ' ' ? std::string("\\ ") : std::string(1, c);
  return words;
}

}  // namespace

TEST_CASE("ssh is called with the user's words first, ours behind them, and nothing that is secret") {
  const StubSsh ssh;
  const rondel::test::TemporaryDirectory folder;
  const std::string key = folder.path() + "/key file";
  std::ofstream(key) << "secret";
  RunningLauncher launcher(ssh.setup(
      {.arguments = {"-H", "me@first:1,[::1]:0002", "-p", "2222", "-i", key, "--ssh-arg", "-oProxyJump=x y",
                     "--ssh-arg=-v", "-x", "ODD_VALUE=hidden", kHelper, "report", "argument"},
       .environment = {"RONDEL_TEST_PASSWORD=hidden"}}));
  CHECK(launcher.wait() == 0);
  const Words expected{"-oProxyJump=x y",
                       "-v",
                       "-o",
                       "BatchMode=yes",
                       "-o",
                       "StrictHostKeyChecking=accept-new",
                       "-o",
                       "ControlMaster=no",
                       "-o",
                       "ConnectTimeout=60",
                       "-o",
                       "ServerAliveInterval=4",
                       "-o",
                       "ServerAliveCountMax=3",
                       "-T",
                       "-p",
                       "2222",
                       "-i",
                       key,
                       "-l",
                       "me",
                       "first",
                       fmt::format("exec {} --agent", in_shell_words(RONDELRUN_PATH))};
  CHECK(ssh.words() == expected);  // [::1] is this host
}

TEST_CASE("ranks of several hosts learn who and where they are") {
  const StubSsh ssh;
  RunningLauncher launcher(
      ssh.setup({.arguments = {"-H", "a:2,localhost:1,b:2", kHelper, "report", "x y"}, .input = "typed"}));
  REQUIRE(launcher.wait() == 0);
  const auto facts = facts_of(launcher);
  REQUIRE(facts.size() == 5);
  const std::map<int, std::pair<const char*, const char*>> local{
      {0, {"0", "2"}}, {1, {"1", "2"}}, {2, {"0", "1"}}, {3, {"0", "2"}}, {4, {"1", "2"}}};
  for (const auto& [rank, fact] : facts) {
    INFO(rank);
    CHECK(fact.at("RANK") == std::to_string(rank));
    CHECK(fact.at("WORLD_SIZE") == "5");
    CHECK(fact.at("LOCAL_RANK") == local.at(rank).first);
    CHECK(fact.at("LOCAL_WORLD_SIZE") == local.at(rank).second);
    CHECK(fact.at("MASTER_ADDR") == facts.at(0).at("MASTER_ADDR"));
    CHECK(fact.at("MASTER_PORT") == facts.at(0).at("MASTER_PORT"));
    CHECK(fact.at("secret") == facts.at(0).at("secret"));
    CHECK(fact.at("stdin") == (rank == 0 ? "typed" : ""));
    CHECK(fact.at("directory") == std::filesystem::current_path());
    CHECK(fact.at("blocked") == "0");
    CHECK(fact.at("descriptors") == "4");  // the standard three and the secret
  }
  CHECK_THAT(launcher.error(), Contains("are one machine"));
}

TEST_CASE("a job whose ports are all taken says which range, and by whom") {
  const auto holder = rondel::store::listen_on("::", 0);
  if (!holder.ok()) {
    WARN("no IPv6 here");
    return;
  }
  const std::string taken = rondel::store::describe(*rondel::store::local_address(holder->get()));
  const std::string port = taken.substr(taken.rfind(':') + 1);
  const StubSsh ssh;
  RunningLauncher launcher(
      ssh.setup({.arguments = {"-x", "RONDEL_PORTS=" + port + "-" + port, "-H", "other", "true"}}));
  CHECK(launcher.wait() == 255);
  CHECK_THAT(launcher.error(),
             Contains("RONDEL_PORTS=" + port) && Contains("process " + std::to_string(::getpid())));
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("words and values arrive byte for byte") {
  const StubSsh ssh;
  const std::string odd = "1 2\n$HOME \"x\" 'y' \\ () * ~ ; & | ! \x01\xff\xc3\xa4\t";
  RunningLauncher launcher(
      ssh.setup({.arguments = {"-H", "other", kHelper, "hex", odd, "", "a b"},
                 .environment = {"ODD_VALUE=" + odd, "BIG=" + std::string(100'000, 'b'),
                                 "BIGGER=" + std::string(100'000, 'c'), "BASH_FUNC_f%%=() { echo x; }"}}));
  REQUIRE(launcher.wait() == 0);
  const Facts facts = facts_of(launcher).at(0);
  CHECK(facts.at("ODD_VALUE") == hex_of(odd));
  CHECK(facts.at("word1") == hex_of(odd));
  CHECK(facts.at("word2").empty());
  CHECK(facts.at("word3") == hex_of("a b"));
}

TEST_CASE("what describes a host stays that host's own, all else comes from here") {
  const StubSsh ssh("sh", "HOME=/there TMPDIR=/scratch SSH_CONNECTION=x ONLY_THERE=1");
  const Words program{"sh", "-c",
                      "echo \"$HOME|$TMPDIR|$SSH_CONNECTION|$ONLY_THERE|$ONLY_HERE|$XDG_RUNTIME_DIR\""};
  const auto run = [&](Words arguments) {
    arguments.insert(arguments.begin(), {"-H", "other", "--no-tag-output"});
    arguments.insert(arguments.end(), program.begin(), program.end());
    RunningLauncher launcher(ssh.setup(
        {.arguments = std::move(arguments),
         .environment = {"HOME=/here", "TMPDIR=/here/tmp", "ONLY_HERE=2", "XDG_RUNTIME_DIR=/run/here"}}));
    CHECK(launcher.wait() == 0);
    return launcher.output();
  };
  CHECK(run({}) == "/there|/scratch|x||2|\n");
  CHECK(run({"-x", "TMPDIR", "-x", "HOME=/asked"}) == "/asked|/here/tmp|x||2|\n");
  CHECK(run({"--env-none", "-x", "ONLY_HERE"}) == "||||2|\n");
}

TEST_CASE("a program is found by the PATH of this host") {
  const StubSsh ssh;
  const TemporaryFolder folder;
  std::filesystem::create_symlink(kHelper, folder.path() + "/own-program");
  RunningLauncher launcher(ssh.setup({.arguments = {"-H", "other", "-x", "PATH=" + folder.path() + ":/bin",
                                                    "own-program", "write", R"(found\n)"}}));
  CHECK(launcher.wait() == 0);
  CHECK(launcher.output() == "[0]<stdout>: found\n");
}

TEST_CASE("every login shell starts the agent, whatever the path of rondelrun holds") {
  const TemporaryFolder folder;
  const std::string odd = folder.path() + "/a b'c!d$e(f)\"g&h;i\\j*k?l~m#n%o^p{q}r\xc3\xa4";
  std::filesystem::create_directory(odd);
  std::filesystem::create_symlink(RONDELRUN_PATH, odd + "/rondelrun");
  for (const char* shell : {"sh", "bash", "dash", "tcsh", "fish", "zsh", "ksh"}) {
    if (!has_shell(shell)) continue;
    INFO(shell);
    const StubSsh ssh(shell);
    RunningLauncher launcher(ssh.setup(
        {.arguments = {"-H", "other", "--remote-path", odd + "/rondelrun", kHelper, "write", R"(here\n)"}}));
    CHECK(launcher.wait() == 0);
    CHECK(launcher.output() == "[0]<stdout>: here\n");
    CHECK(launcher.error() == "");
  }
}

TEST_CASE("a host without our rondelrun is named, with the path, in every shell") {
  for (const char* shell : {"sh", "bash", "dash", "tcsh", "fish"}) {
    if (!has_shell(shell)) continue;
    INFO(shell);
    std::string error;
    CHECK(run_for_code(StubSsh(shell), {"--remote-path", "/no/such/rondelrun", "true"}, error) == 255);
    CHECK_THAT(error, Contains("host other: /no/such/rondelrun is not there") && Contains("--remote-path"));
  }
}

TEST_CASE("another version on a host is refused by name") {
  // magic; length 22; kind 0, protocol 1, "0.0.1", "older": what every version begins with
  const StubSsh ssh = StubSsh::with_body(
      R"(printf '\n\001\002rondelrun agent speaks\002\001\n\025\000\000\000\000\011\000\005\000\000\0000.0.1\005\000\000\000older'; cat >/dev/null)");
  std::string error;
  CHECK(run_for_code(ssh, {"true"}, error) == 255);
  CHECK_THAT(error, Contains("host other: ") && Contains("there is version 0.0.1 (protocol 9)") &&
                        Contains("this is version ") && Contains("install the same one"));
}

TEST_CASE("what ssh could not do is said in words, one line for each host") {
  const std::map<std::string, std::string> causes{
      {"ssh: Could not resolve hostname other: Name or service not known", "its name can not be resolved"},
      {"ssh: connect to host other port 22: Connection refused", "nothing answers ssh on that port"},
      {"ssh: connect to host other port 22: Connection timed out", "it does not answer"},
      {"ssh: connect to host other port 22: No route to host", "there is no way to it"},
      {"Host key verification failed.", "its host key is not trusted"},
      {"root@other: Permission denied (publickey).", "it refused the login"},
      {"kex_exchange_identification: Connection closed by remote host", "it closed the connection"}};
  for (const auto& [words, meaning] : causes) {
    std::string error;
    CHECK(run_for_code(StubSsh::with_body("echo '" + words + "' >&2; exit 255"), {"true"}, error) == 255);
    CHECK_THAT(error, Contains("rondelrun: host other: " + meaning) && Contains(words));
    CHECK(std::count(error.begin(), error.end(), '\n') == 1);
  }
  const StubSsh both = StubSsh::with_body("echo \"ssh: Could not resolve hostname $host\" >&2; exit 255");
  RunningLauncher launcher(both.setup({.arguments = {"-H", "one,two,localhost", "true"}}));
  CHECK(launcher.wait() == 255);
  CHECK_THAT(launcher.error(), Contains("host one: its name") && Contains("host two: its name"));
  CHECK(launcher.output().empty());  // no rank of a host that answered was started
}

TEST_CASE("a host that comes up later is waited for when that is asked for") {
  const TemporaryFolder folder;
  const StubSsh ssh = StubSsh::with_body(
      "[ -e '" + folder.path() + "/up' ] || { touch '" + folder.path() +
      "/up'; echo \"ssh: Could not resolve hostname $host\" >&2; exit 255; }\nexec sh -c \"$command\"");
  RunningLauncher launcher(
      ssh.setup({.arguments = {"-H", "other", "--wait-for-hosts", "20", kHelper, "write", R"(here\n)"}}));
  CHECK(launcher.wait() == 0);
  CHECK(launcher.output() == "[0]<stdout>: here\n");
  CHECK_THAT(launcher.error(),
             Contains("host other: its name can not be resolved") && Contains("trying again for 20 s"));
  std::string error;
  CHECK(run_for_code(StubSsh::with_body("echo 'Connection refused' >&2; exit 255"),
                     {"--wait-for-hosts", "0.6", "true"}, error) == 255);
  CHECK(std::count(error.begin(), error.end(), '\n') == 2);  // at first, and in the end
}

TEST_CASE("pods are reached by whatever is called ssh, such as a script around kubectl exec") {
  const TemporaryFolder folder;
  const std::string pods = folder.path() + "/hostfile";
  std::ofstream(pods)
      << "train-worker-0.train.default.svc slots=2\ntrain-worker-1.train.default.svc slots=2\n";
  // As the script in docs/kubernetes.md: what would be kubectl's words are checked.
  const StubSsh ssh = StubSsh::with_body(
      "set -- exec -i \"${host%%.*}\" -- /bin/sh -c \"$command\"\n"
      "case $3 in train-worker-[01]) ;; *) exit 9 ;; esac\n"
      "shift 4\nexec env -i PATH=/usr/bin:/bin HOME=/var/empty RONDEL_TEST_MARK=\"$RONDEL_TEST_MARK\" "
      "\"$@\"");
  RunningLauncher launcher(ssh.setup({.arguments = {"--hostfile", pods, kHelper, "write", R"(here\n)"}}));
  CHECK(launcher.wait() == 0);
  CHECK(launcher.output_lines().size() == 4);
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("a host that prints without end, or never answers, is given up") {
  std::string error;
  CHECK(run_for_code(StubSsh::with_body("exec yes"), {"true"}, error) == 255);
  CHECK_THAT(error, Contains("host other: more than 1 MiB was printed before it"));
  CHECK(run_for_code(StubSsh::with_body("echo 'last words' >&2; exec sleep 1000"),
                     {"--start-timeout", "0.1", "true"}, error) == 255);
  CHECK_THAT(error, Contains("host other: no agent began to speak within 2.1 s") &&
                        Contains("--start-timeout") && Contains("last words"));
}

TEST_CASE("what a host lacks is said with its name") {
  const StubSsh ssh;
  std::string error;
  CHECK(run_for_code(ssh, {"--wdir", "/no/such/place", "true"}, error) == 255);
  CHECK_THAT(error, Contains("host other: cannot start rank 0") && Contains("/no/such/place"));
  CHECK(run_for_code(ssh, {"no-such-program-anywhere"}, error) == 255);
  CHECK_THAT(error, Contains("host other: cannot start rank 0") && Contains("no-such-program-anywhere"));
}

TEST_CASE("ranks that do not join are named with their hosts") {
  const StubSsh ssh;
  RunningLauncher launcher(
      ssh.setup({.arguments = {"-H", "a:2,b:2", "--start-timeout", "0.5", kHelper, "join", "2"}}));
  CHECK(launcher.wait_for_error("2 of 4 ranks have joined"));
  CHECK_THAT(launcher.error(), Contains("ranks 2 (b), 3 (b)"));
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
}

TEST_CASE("without ssh on this host the reason is given") {
  RunningLauncher launcher(
      {.arguments = {"-H", "other", "/bin/true"}, .environment = {"PATH=/no/such/folder"}});
  CHECK(launcher.wait() == 255);
  CHECK_THAT(launcher.error(), Contains("host other: running ssh") && Contains("PATH"));
}

TEST_CASE("the agent is not for people") {
  RunningLauncher launcher({.arguments = {"--agent"}, .terminal = true});
  CHECK(launcher.wait() == 2);
  CHECK_THAT(launcher.output(), Contains("--agent is for rondelrun itself"));
}
