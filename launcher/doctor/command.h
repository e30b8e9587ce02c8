// SPDX-License-Identifier: Apache-2.0
// What an examination takes from the command line and the plan, and the commands that it gives to a person.
// Pure but for the look for a program beside this one; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/host.h"
#include "launcher/job_plan.h"
#include "launcher/options.h"
#include "launcher/ssh_command.h"

namespace rondel::doctor {

/// `plan` with less patience for a login than a job has, unless somebody chose it: a page is waited for.
JobPlan for_examination(JobPlan plan);

/// Warnings, and hosts that are left out because they take no rank.
std::vector<std::string> notes_of(const Options& options, const JobPlan& plan);

/// A command that logs in to `host` as rondelrun does, and starts it there.
std::string login_by_hand(const Host& host, const SshOptions& options);

/// The job that was asked about: the same options, and the program, or the benchmark where none was named.
/// `no_ranks`: nothing said how many ranks.
std::string next_command(std::span<const std::string> arguments, const Options& options, bool no_ranks);

}  // namespace rondel::doctor
