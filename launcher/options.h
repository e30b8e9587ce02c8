// SPDX-License-Identifier: Apache-2.0
// The command line of rondelrun: words in, a checked Options value out. CLI11 knows types and help behind it.
// Does no input or output and looks at nothing but its argument.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/binding.h"
#include "launcher/placement.h"
#include "launcher/settings_file.h"
#include "launcher/ssh_command.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

enum class Action {
  run,
  dry_run,
  help,
  version,
  help_config,
  check_build,
  man_page,
  man_page_config,
  bash_completion,
  doctor,
  agent  ///< what ssh starts on the other hosts
};

struct Options {
  Action action = Action::run;
  Rank ranks = 0;           ///< 0: as many as the hosts have slots
  std::vector<Host> hosts;  ///< -H, or what the caller read from `host_file`; empty: this host
  std::string host_file;    ///< not read here; empty when there is none
  Rank per_host = 0;        ///< 0: as the slots allow
  MapBy map_by = MapBy::slot;
  bool oversubscribe = false;
  BindingRules binding;
  std::vector<std::string> program;  ///< with its arguments
  std::vector<std::string> exports;  ///< -x, and the RONDEL_ variables that other options stand for
  bool only_exports = false;
  std::string directory;              ///< empty: the launcher's own
  std::optional<Rank> stdin_rank{0};  ///< who reads the launcher's standard input; nobody when empty
  bool tag_output = true;
  bool timestamp_output = false;
  std::string output_directory;
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds kill_grace{5'000};
  SshOptions ssh;
  bool json = false;
  bool verbose = false;
  std::vector<std::string> warnings;  ///< options that were accepted but do nothing
};

/// The first word of a command line that asks for an examination in place of a job.
inline constexpr std::string_view kDoctorWord = "doctor";

bool asks_doctor(std::span<const std::string> arguments);

/// `arguments` without the program name, after the `settings` of a configuration file, which they override.
/// invalid_argument names the option, what was given and what was expected.
Result<Options> parse_options(std::span<const std::string> arguments, std::span<const Setting> settings = {});

/// The file that --config-file names; empty when there is none.
Result<std::string> config_file_in(std::span<const std::string> arguments);

/// One option, for help texts and the manual page.
struct OptionRow {
  std::string names;  ///< "-n, --np, --num-proc"
  std::string value;  ///< "N"; empty for a flag
  std::string text;
};
std::vector<OptionRow> option_rows();

std::string usage_text();

}  // namespace rondel
