// SPDX-License-Identifier: Apache-2.0
// The options of rondelrun as CLI11 knows them: names, help texts and what a value may be. Parsing, help and
// manual page come from this one table. What options mean together is options.cc's business.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/types.h"

namespace CLI {
class App;
}

namespace rondel {

/// What CLI11 writes into, before it becomes Options.
struct RawOptions {
  Rank ranks = 0, per_host = 0;
  std::vector<std::string> exports, mca, hosts, ssh_arguments;
  std::string directory, output_directory, transport, net, algorithm, stdin_choice = "0", bind_to, host_file,
                                                                      map_by = "slot";
  std::string identity_file, remote_path, config_file;
  std::uint16_t ssh_port = 0;
  double timeout_s = 0, wait_s = 0, start_timeout_s = 60, kill_grace_s = 5;
  bool oversubscribe = false, only_exports = false, tag = false, no_tag = false, timestamp = false,
       json = false, verbose = false;
  bool dry_run = false, help = false, version = false, help_config = false, check_build = false;
  bool man_page = false, man_page_config = false, bash_completion = false, root = false, agent = false;
};

void add_options(CLI::App& app, RawOptions& raw);

}  // namespace rondel
