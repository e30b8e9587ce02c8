// SPDX-License-Identifier: Apache-2.0
// The agent of one host: starts the host's ranks as the launcher orders, carries their output and input,
// passes signals on, tells how ranks end, and leaves when nothing of the job is left on its host. When the
// launcher vanishes (its stream ends, or is silent for too long) it ends everything by itself; its guardian
// does so when the agent is killed. It decides nothing else. A process of its own, one thread.
#pragma once

#include <string>

#include "launcher/doctor/examiner.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

struct AgentSetup {
  UniqueFd from_launcher;
  UniqueFd to_launcher;
  std::string version;              ///< of this program
  bool elsewhere = true;            ///< on another host than the launcher, whose standard input is not ours
  doctor::TransportLook look = {};  ///< for an examination
};

/// Runs until the job is over; returns the process's exit code. Standard input, output and error must be
/// open.
int run_agent(AgentSetup setup);

/// The agent as a child of this process, for the ranks of its own host. To be called before there are other
/// threads.
struct LocalAgent {
  pid_t pid = -1;
  UniqueFd to_agent;
  UniqueFd from_agent;
};
Result<LocalAgent> fork_agent(const std::string& version, doctor::TransportLook look = {});

}  // namespace rondel
