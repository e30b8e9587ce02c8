// SPDX-License-Identifier: Apache-2.0
// Station: what a launcher stands on, whether it runs a job or examines hosts: the agent of its own host,
// room for descriptors, a secret, signals and a loop. Made once, then taken apart by its owner. Main thread.
#pragma once

#include <sys/resource.h>

#include <string>

#include "launcher/agent.h"
#include "launcher/event_loop.h"
#include "launcher/job_plan.h"
#include "launcher/process.h"
#include "launcher/signals.h"
#include "lib/auth.h"

namespace rondel {

struct Station {
  LocalAgent local;                 ///< where the plan uses this host
  Result<rlimit> descriptor_limit;  ///< of ranks; or why there is no room for the launcher's own
  Secret secret;
  SignalSource signals;
  EventLoop loop;
};

/// `files`: each rank's output goes to files as well. `look` is for an examination.
Result<Station> make_station(const JobPlan& plan, const std::string& version, bool files,
                             doctor::TransportLook look = {});

/// For the ssh processes that log in to hosts.
ProcessRequest login_request(const SignalSource& signals, const rlimit& descriptor_limit);

}  // namespace rondel
