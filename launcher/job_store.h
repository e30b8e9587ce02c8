// SPDX-License-Identifier: Apache-2.0
// JobStore: the server at which the ranks of a job meet, and where it is reached. It listens on the loopback
// address alone when all ranks are on this host, on every address otherwise. Owned by the job; the server has
// a thread of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/job_plan.h"
#include "lib/auth.h"
#include "lib/status.h"
#include "lib/store/tcp_server.h"

namespace rondel {

struct JobStore {
  std::unique_ptr<TcpServer> server;
  std::string own_address;             ///< for ranks of this host: "127.0.0.1:4321"
  std::vector<std::string> addresses;  ///< for other hosts, best first; empty when there are none
};

/// With other hosts, on a port of RONDEL_PORTS when that is set. unavailable names what was tried last.
Result<JobStore> start_job_store(const JobPlan& plan, const Secret& secret);

}  // namespace rondel
