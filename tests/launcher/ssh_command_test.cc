// SPDX-License-Identifier: Apache-2.0
#include "launcher/ssh_command.h"

#include <algorithm>
#include <catch2/catch.hpp>

using Catch::Matchers::Contains;
using rondel::explain_ssh;
using rondel::Host;
using rondel::may_pass;
using rondel::shell_word;
using rondel::SshEnding;
using rondel::SshOptions;
using Words = std::vector<std::string>;

namespace {

Words words_for(const Host& host, const SshOptions& options) {
  const auto words =
      ssh_words(host, options, std::chrono::milliseconds(1'500), std::chrono::milliseconds(9'000));
  REQUIRE(words.ok());
  return *words;
}

bool follows(const Words& words, const std::string& one, const std::string& other) {
  const auto at = std::find(words.begin(), words.end(), one);
  return at != words.end() && at + 1 != words.end() && at[1] == other;
}

}  // namespace

TEST_CASE("the words of ssh: the user's first, a host's own port before the common one") {
  const SshOptions options{
      .port = 22, .identity_file = "key", .arguments = {"-F", "my config"}, .remote_path = "/opt/rondelrun"};
  const Words words = words_for({.user = "me", .name = "fe80::1%eth0", .ssh_port = 2222}, options);
  CHECK(words[0] == "ssh");
  CHECK(words[1] == "-F");
  CHECK(words[2] == "my config");
  CHECK(follows(words, "-p", "2222"));
  CHECK(follows(words, "-i", "key"));
  CHECK(follows(words, "-l", "me"));
  CHECK(follows(words, "-o", "BatchMode=yes"));
  CHECK(std::count(words.begin(), words.end(), "ConnectTimeout=2") == 1);
  CHECK(std::count(words.begin(), words.end(), "ServerAliveInterval=3") == 1);
  CHECK(words[words.size() - 2] == "fe80::1%eth0");
  CHECK(words.back() == "exec /opt/rondelrun --agent");
  const Words plain = words_for({.name = "node"}, {.remote_path = "/opt/rondelrun"});
  for (const char* absent : {"-p", "-i", "-l"}) CHECK(std::count(plain.begin(), plain.end(), absent) == 0);
}

TEST_CASE("a path becomes one word of any shell, or is refused") {
  CHECK(*shell_word("/usr/local/bin/rondel-run_1.0+x,y:z@w") == "/usr/local/bin/rondel-run_1.0+x,y:z@w");
  CHECK(*shell_word("/a b'c!\"$") == "/a\\ b\\'c\\!\\\"\\$");
  CHECK(*shell_word("/\xc3\xa4") == "/\xc3\xa4");
  CHECK_THAT(shell_word("/a\nb").status().text(), Contains("line break"));
  CHECK_FALSE(rondel::ssh_words({.name = "a"}, {.remote_path = "/a\nb"}, {}, {}).ok());
}

TEST_CASE("only what a host that is coming up shows is worth another try") {
  const auto passes = [](int code, const std::string& errors, bool greeted = false) {
    return may_pass({.ending = {code, 0}, .greeted = greeted, .errors = errors});
  };
  CHECK(passes(255, "ssh: Could not resolve hostname n: Name or service not known"));
  CHECK(passes(255, "ssh: connect to host n port 22: Connection refused"));
  CHECK(passes(255, "kex_exchange_identification: Connection closed by remote host"));
  CHECK(passes(255,
               "\"System is booting up. Unprivileged users are not permitted to log in yet. Please come back "
               "later.\"\nn: Permission denied (publickey)."));
  CHECK_FALSE(passes(255, "n: Permission denied (publickey)."));
  CHECK_FALSE(passes(255, "Host key verification failed."));
  CHECK_FALSE(passes(127, "Connection refused"));
  CHECK_FALSE(passes(255, "Connection reset by peer", true));
  CHECK_FALSE(may_pass({.ending = {0, 9}, .errors = "Connection refused"}));
}

TEST_CASE("how a connection ended is said in words") {
  const SshOptions options{.remote_path = "/opt/rondelrun"};
  const auto after = [&options](int code, const std::string& errors, bool greeted = false) {
    return explain_ssh({.ending = {code, 0}, .greeted = greeted, .errors = errors}, options);
  };
  CHECK_THAT(after(255, "noise\nssh: connect to host n port 22: Connection refused\r\n"),
             Contains("nothing answers ssh on that port: ssh says \"ssh: connect to host n port 22: "
                      "Connection refused\""));
  CHECK_THAT(
      after(255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."),
      Contains("its host key is not the known one") && Contains("ssh-keygen -R"));
  CHECK_THAT(after(127, "sh: 1: exec: /opt/rondelrun: not found"), Contains("/opt/rondelrun is not there"));
  CHECK_THAT(after(1, "/opt/rondelrun: Command not found."), Contains("/opt/rondelrun is not there"));
  CHECK_THAT(after(126, "Permission denied"), Contains("/opt/rondelrun can not be run there"));
  CHECK_THAT(after(255, "Timeout, server n not responding.", true), Contains("it has fallen silent"));
  CHECK_THAT(after(255, "", true), Contains("its agent went away, ssh ended with 255"));
  CHECK_THAT(after(0, "", true), Contains("its agent went away"));
  CHECK_THAT(explain_ssh({.ending = {0, 9}, .greeted = true}, options),
             Contains("ssh was killed by signal 9"));
  CHECK_THAT(explain_ssh({.ending = {1, 0}, .printed = "This account is closed.\n"}, options),
             Contains("no agent began to speak, ssh ended with 1; it printed \"This account is closed.\""));
  CHECK_THAT(after(255, "\x1b[2J evil"), !Contains("\x1b"));
}

TEST_CASE("a reason and its hint come apart as they were put together") {
  using rondel::split_hint;
  using rondel::with_hint;
  const std::string said = "it refused the login: ssh says \"Permission denied (publickey).\"";
  for (const std::string& hint :
       {std::string(), std::string("log in"), std::string("its log (auth.log) says why")}) {
    CHECK(split_hint(with_hint(said, hint)).first == said);
    CHECK(split_hint(with_hint(said, hint)).second == hint);
  }
  for (const char* odd : {"", ")", "()", "(a)", "a)", "a ((b)", "x (y"})
    CHECK(split_hint(odd).first.size() <= std::string(odd).size());
}
