// SPDX-License-Identifier: Apache-2.0
#include "launcher/ssh_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/visible_text.h"

namespace rondel {
namespace {

constexpr int kSshFailure = 255;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

/// What stands in ssh's words, what that means, what to do about it, and whether it may be better in a while.
struct Cause {
  std::string_view words;
  std::string_view meaning;
  std::string_view hint;
  bool may_pass = false;
};
constexpr std::array kCauses{
    // pam_nologin's words; others may follow them.
    Cause{"are not permitted to log in yet", "it is still starting", "wait for it with --wait-for-hosts",
          true},
    Cause{"Could not resolve hostname", "its name can not be resolved", "is it spelt right?", true},
    Cause{"HOST IDENTIFICATION HAS CHANGED", "its host key is not the known one",
          "if the host was set up anew, remove the old key with ssh-keygen -R"},
    Cause{"Host key verification failed", "its host key is not trusted", "log in once with ssh to see why"},
    Cause{"Permission denied", "it refused the login",
          "ssh must get in without a password: a key in ~/.ssh, in an agent, or given with -i"},
    Cause{"Too many authentication failures", "it refused the login", "name the right key with -i"},
    Cause{"Connection refused", "nothing answers ssh on that port",
          "does sshd run there? -p gives another port", true},
    Cause{"timed out", "it does not answer", "is it up, and does a firewall let ssh through?", true},
    Cause{"not responding", "it has fallen silent", "is it up, and is its network?"},
    Cause{"No route to host", "there is no way to it", "is it up, and is its network?", true},
    Cause{"Network is unreachable", "there is no way to it", "is this host's network up?", true},
    Cause{"Bad configuration option", "ssh does not accept its options", "look at ssh_config and --ssh-arg"},
    Cause{"Connection closed by", "it closed the connection",
          "its log (auth.log or journalctl -u ssh) says why", true},
    Cause{"Connection reset", "it broke the connection", "its log (auth.log or journalctl -u ssh) says why",
          true},
};

const Cause* cause_of(const SshEnding& end) {
  if (end.ending.signal != 0 || end.ending.code != kSshFailure) return nullptr;
  const auto cause = std::find_if(kCauses.begin(), kCauses.end(), [&end](const Cause& each) {
    return end.errors.find(each.words) != std::string::npos;
  });
  return cause == kCauses.end() ? nullptr : &*cause;
}

std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const auto start = text.find_last_of("\r\n");
  return std::string(start == std::string_view::npos ? text : text.substr(start + 1));
}

std::string shown(std::string_view text) { return visible(last_line(text), 200); }

bool says_missing(const SshEnding& end) {
  if (end.ending.signal != 0 || end.greeted) return false;
  // tcsh gives 1 for a program that is not there.
  return end.ending.code == kNotFound ||
         (end.ending.code == 1 && end.errors.find("not found") != std::string::npos);
}

int whole_seconds(std::chrono::milliseconds time) {
  return static_cast<int>(std::clamp<long long>((time.count() + 999) / 1000, 1, 1'000'000));
}

}  // namespace

std::string with_hint(std::string text, std::string_view hint) {
  return hint.empty() ? text : fmt::format("{} ({})", text, hint);
}

std::pair<std::string, std::string> split_hint(const std::string& reason) {
  if (!reason.ends_with(')')) return {reason, {}};
  int depth = 0;
  for (std::size_t at = reason.size(); at-- > 1;) {
    depth += reason[at] == ')' ? 1 : reason[at] == '(' ? -1 : 0;
    if (depth == 0 && reason[at - 1] == ' ')
      return {reason.substr(0, at - 1), reason.substr(at + 1, reason.size() - at - 2)};
  }
  return {reason, {}};
}

Result<std::string> shell_word(std::string_view text) {
  std::string word;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == '\0')
      return Status(
          Code::invalid_argument,
          fmt::format("a path with a line break can not be given to a remote shell: {}", visible(text)));
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/._-+,:@").find(c) != std::string_view::npos ||
                       static_cast<unsigned char>(c) >= 0x80;
    // Quotes differ among these shells; a backslash before a character that is no letter does not.
    if (!plain) word += '\\';
    word += c;
  }
  return word;
}

Result<std::vector<std::string>> ssh_words(const Host& host, const SshOptions& options,
                                           std::chrono::milliseconds connect,
                                           std::chrono::milliseconds silence) {
  const auto program = shell_word(options.remote_path);
  if (!program.ok()) return program.status();
  std::vector<std::string> words{"ssh"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  constexpr int kProbes = 3;
  const auto add = [&words](std::string setting) {
    words.emplace_back("-o");
    words.push_back(std::move(setting));
  };
  add("BatchMode=yes");
  add("StrictHostKeyChecking=accept-new");
  // A master of the user's may carry our session, but ours carries nobody else's: those would end with us.
  add("ControlMaster=no");
  add(fmt::format("ConnectTimeout={}", whole_seconds(connect)));
  add(fmt::format("ServerAliveInterval={}", whole_seconds(silence / kProbes)));
  add(fmt::format("ServerAliveCountMax={}", kProbes));
  words.emplace_back("-T");
  const std::uint16_t port = host.ssh_port != 0 ? host.ssh_port : options.port;
  if (port != 0) words.insert(words.end(), {"-p", std::to_string(port)});
  if (!options.identity_file.empty()) words.insert(words.end(), {"-i", options.identity_file});
  if (!host.user.empty()) words.insert(words.end(), {"-l", host.user});
  words.insert(words.end(), {host.name, fmt::format("exec {} --agent", *program)});
  return words;
}

bool may_pass(const SshEnding& end) {
  const Cause* cause = cause_of(end);
  return !end.greeted && cause != nullptr && cause->may_pass;
}

std::string explain_ssh(const SshEnding& end, const SshOptions& options) {
  if (end.ending.signal != 0) return fmt::format("ssh was killed by signal {}", end.ending.signal);
  if (says_missing(end))
    return fmt::format(
        "{} is not there (install the same rondelrun at the same place, or give its place with "
        "--remote-path)",
        options.remote_path);
  if (end.ending.code == kNotExecutable && !end.greeted)
    return fmt::format("{} can not be run there: {}", options.remote_path, shown(end.errors));
  if (const Cause* cause = cause_of(end))
    return with_hint(fmt::format("{}: ssh says {}", cause->meaning, shown(end.errors)), cause->hint);
  const std::string said = end.errors.empty() ? "" : fmt::format("; the last words: {}", shown(end.errors));
  if (end.greeted)
    return end.ending.code == 0
               ? "its agent went away" + said
               : fmt::format("its agent went away, ssh ended with {}{}", end.ending.code, said);
  const std::string printed = end.printed.empty() ? "" : fmt::format("; it printed {}", shown(end.printed));
  return fmt::format("no agent began to speak, ssh ended with {}{}{}", end.ending.code, said, printed);
}

}  // namespace rondel
