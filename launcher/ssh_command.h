// SPDX-License-Identifier: Apache-2.0
// How the user's own OpenSSH is asked to start an agent on a host, and what it meant when that did not work.
// Pure: values in, words out. Nothing that is secret, or differs from rank to rank, is in these words: it
// travels over the connection.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/host.h"
#include "launcher/process.h"
#include "lib/status.h"

namespace rondel {

struct SshOptions {
  std::uint16_t port = 0;     ///< for hosts without one of their own; 0: as ssh's configuration says
  std::string identity_file;  ///< empty: likewise
  std::vector<std::string>
      arguments;                     ///< of the user's, in front of ours: ssh takes the first of two settings
  std::chrono::milliseconds wait{};  ///< for how long to try again what may_pass()
  std::string remote_path;           ///< of rondelrun on the other hosts
};

/// `text` as one word for whatever shell logs in: sh, bash, zsh, dash, tcsh and fish take it alike.
/// invalid_argument: a line break, which no such word can hold.
Result<std::string> shell_word(std::string_view text);

/// The words that log in to `host` and start an agent there. `connect`: how long a login may take; `silence`:
/// after so much of it from the host ssh ends the connection.
Result<std::vector<std::string>> ssh_words(const Host& host, const SshOptions& options,
                                           std::chrono::milliseconds connect,
                                           std::chrono::milliseconds silence);

/// "text (hint)": how all reasons are said for which a host is lost. And the parts again; the second may be
/// empty.
std::string with_hint(std::string text, std::string_view hint);
std::pair<std::string, std::string> split_hint(const std::string& reason);

/// What is known when a connection has ended that should not have.
struct SshEnding {
  Ending ending;         ///< of ssh
  bool greeted = false;  ///< the agent had begun to speak
  std::string errors;    ///< the end of what came on standard error: ssh's words, or the remote shell's
  std::string printed;   ///< the end of what was printed in place of the agent's greeting
};

/// Whether the host may only not be up yet: no name, no sshd, no network.
bool may_pass(const SshEnding& end);

/// One line: what happened in words, the tool's own last words, and what to do.
std::string explain_ssh(const SshEnding& end, const SshOptions& options);

}  // namespace rondel
