// SPDX-License-Identifier: Apache-2.0
// Finds the processes of a job in /proc, also those that have left the ranks' process groups, and signals
// them. A process is of the job when it runs in a rank's session, has the job's unguessable name and one of
// the host's ranks in its environment, or is an orphan that the kernel has handed to the agent. No name or
// command line is ever compared. Any thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "lib/types.h"

namespace rondel {

struct JobMark {
  std::string job;              ///< value of RONDEL_JOB
  std::vector<Rank> ranks;      ///< of this host, ascending: others of one machine may be another "host"'s
  std::vector<pid_t> sessions;  ///< of the ranks
  pid_t adopter = -1;           ///< the agent, whose other children are orphans of the job; -1: nobody
  std::vector<pid_t> spared;    ///< never signalled: agent, guardian, launcher
};

/// Sends `signal` (0: none) to each living process of the job and returns how many there are.
std::size_t signal_job(const JobMark& mark, int signal);

/// Those of mark.sessions that still have a living process.
std::vector<pid_t> living_sessions(const JobMark& mark);

/// Sessions of this process's children that are in none of mark.sessions: orphans that the kernel has handed
/// to it.
std::vector<pid_t> adopted_sessions(const JobMark& mark);

/// Collects ended orphans that the kernel has handed to this process; the ranks in mark.sessions are left
/// alone.
void collect_orphans(const JobMark& mark);

}  // namespace rondel
