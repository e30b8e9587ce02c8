// SPDX-License-Identifier: Apache-2.0
// JobPlan: everything about a job that is known before anything is started, checked. Pure: options, an
// environment and a host's name in; --dry-run shows exactly this value.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/environment.h"
#include "launcher/options.h"
#include "launcher/placement.h"
#include "lib/log.h"
#include "lib/status.h"

namespace rondel {

/// How much longer than JobPlan::silence launcher and agent wait for each other: ssh gives up first, and says
/// why.
inline constexpr std::chrono::milliseconds kAfterSilence{2'000};

struct JobPlan {
  std::string host;                       ///< this one's name
  std::vector<Host> hosts;                ///< this one once, whatever names it was given
  std::optional<std::size_t> local_host;  ///< which of them is this one, when it is among them
  std::vector<RankPlace> places;
  std::vector<std::string> program;
  BaseEnvironment environment;
  std::string directory;
  std::optional<Rank> stdin_rank;
  std::chrono::milliseconds start_timeout{};  ///< as the ranks will read it
  LogLevel log_level = LogLevel::warn;        ///< likewise
  std::chrono::milliseconds silence{};        ///< likewise: of a host, then it is lost
  std::string net;                            ///< likewise: RONDEL_NET
  std::string transport;                      ///< likewise: RONDEL_TRANSPORT
  bool encrypt = false;                       ///< likewise: RONDEL_ENCRYPT
  std::string ports;                          ///< likewise: RONDEL_PORTS
  BindTo bind_to = BindTo::none;
  std::vector<CpuSet> local_bindings{};  ///< by local rank of this host, for --dry-run

  Rank size() const { return static_cast<Rank>(places.size()); }
  bool is_local(std::size_t host_index) const { return local_host == host_index; }
  /// Whether a rank runs on another host; on this one.
  bool leaves_this_host() const;
  bool uses_this_host() const;
};

/// How messages name a host: "u@node port 2222".
std::string label_of(const Host& host);

/// `host` is this host's name. invalid_argument also for RONDEL_ variables that the ranks would refuse: one
/// error here instead of one per rank.
Result<JobPlan> make_plan(const Options& options, std::span<const std::string> inherited,
                          const std::string& host);

std::string plan_text(const JobPlan& plan);
std::string plan_json(const JobPlan& plan);

}  // namespace rondel
