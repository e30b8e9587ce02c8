// SPDX-License-Identifier: Apache-2.0
// run_doctor: logs in to the hosts of a plan as a job would, has their agents say what they are like and
// probe one another, and prints what was found. Everything has a deadline, and a host that can not be
// examined keeps no other from being. Wires fleet, store and clock probes into one loop on the calling
// thread; what the findings mean is diagnosis.h's business.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/doctor/examiner.h"
#include "launcher/job_plan.h"
#include "launcher/options.h"

namespace rondel::doctor {

struct DoctorSetup {
  std::string version;      ///< of this program, which the agents must have
  TransportLook look;       ///< for the agent of this host
  std::string next;         ///< a command to go on with, when all is well
  std::size_t width = 100;  ///< of the page
};

/// 0: no error was found; 1: one was; 128 + a signal's number when stopped by it, 124 by --timeout, with what
/// was known by then.
int run_doctor(const Options& options, const JobPlan& plan, const DoctorSetup& setup);

}  // namespace rondel::doctor
