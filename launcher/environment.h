// SPDX-License-Identifier: Apache-2.0
// The environment of a rank: what it inherits, what -x asks for, and the variables that tell it who and where
// it is (one table, from which the manual page is made too). Pure; the job secret is no part of it, only its
// descriptor.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/placement.h"
#include "lib/status.h"

namespace rondel {

/// Where the ranks of a job meet.
struct JobContact {
  std::string job;             ///< unguessable name of the job
  std::string store;           ///< tcp://127.0.0.1:40123
  std::string master_address;  ///< for frameworks that bring their own store: a free port of rank 0's host
  std::uint16_t master_port = 0;
};

/// One variable that each rank receives, for help texts.
struct RankVariable {
  std::string_view name;
  std::string_view text;
};
std::vector<RankVariable> rank_variables();

/// What all ranks share, "NAME=value" each.
struct BaseEnvironment {
  std::vector<std::string> variables;
  std::set<std::string, std::less<>> chosen;  ///< names that -x set to a value
  std::set<std::string, std::less<>> named;   ///< all names that -x gave, with or without a value
  std::vector<std::string> warnings;          ///< an exported name that is not set
};

/// `exports` are the -x arguments: NAME, NAME=value or 'PREFIX*'. With `only_exports` nothing else is
/// inherited. Without -x, the rank numbers that other launchers gave this process are not. invalid_argument
/// for a name that is none, or one that the launcher itself must set.
Result<BaseEnvironment> base_environment(std::span<const std::string> inherited,
                                         std::span<const std::string> exports, bool only_exports);

/// Whether a variable describes the host or the login that it is set in (HOME, TMPDIR, SSH_AUTH_SOCK, ...),
/// so that ranks of another host are to have that host's own.
bool is_host_variable(std::string_view name);
/// `base` as it goes to another host: without the variables that describe this one, unless -x named them.
BaseEnvironment for_other_host(const BaseEnvironment& base);
/// On that host: adds its own ones from `own`, where `base` does not have them.
void add_host_variables(BaseEnvironment& base, std::span<const std::string> own);

/// `base` with the table's variables for the rank at `place`, which reads the secret from `secret_fd`.
std::vector<std::string> rank_environment(const BaseEnvironment& base, const RankPlace& place,
                                          const JobContact& contact, int secret_fd);

}  // namespace rondel
