// SPDX-License-Identifier: Apache-2.0
// Everything that an examination has found out, as it was found: what diagnosis, page and report_json work
// from. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent_protocol.h"
#include "launcher/doctor/facts.h"
#include "lib/types.h"

namespace rondel::doctor {

/// How much a host's clock is ahead of the launcher's.
struct ClockEstimate {
  std::int64_t ahead_ns = 0;
  std::uint64_t uncertain_ns = 0;  ///< half of the quickest round trip
};

struct HostFindings {
  std::string label;                   ///< as the user named it
  std::string own_name;                ///< as it calls itself; empty: it has not greeted
  std::string machine;                 ///< Hello::machine
  Rank ranks = 0;                      ///< that a job would start there
  Rank first_rank = 0, last_rank = 0;  ///< of them
  bool is_launchers = false;
  std::string by_hand;              ///< a command that logs in to it as rondelrun does
  std::optional<std::string> lost;  ///< why nothing more was heard of it
  std::optional<HostFacts> facts;
  std::optional<ClockEstimate> clock;
  std::vector<agent::Attempt> attempts;  ///< from it to the others, and to the store
};

struct MeasuredPair {
  std::size_t from = 0, to = 0;
  std::string address;
  agent::Measured result;
};

/// Something that the launcher met itself.
struct OwnProblem {
  std::string words, fix;
};

struct Findings {
  std::string version;
  Rank ranks = 0;
  std::string net, ports, transport;  ///< RONDEL_NET, RONDEL_PORTS, RONDEL_TRANSPORT of the job
  std::vector<HostFindings> hosts;
  std::vector<MeasuredPair> measured;
  std::size_t unmeasured = 0;  ///< pairs that reach each other, for which there was no time
  std::vector<OwnProblem> own_problems;
  std::vector<std::string> notes;  ///< warnings of the command line and the hostfile
  std::string next;                ///< a command to go on with
  double seconds = 0;
};

/// What is known of the way from one host to another.
struct Path {
  const agent::Attempt* reached = nullptr;  ///< the best address that works
  const agent::Attempt* failed = nullptr;   ///< else the best one that does not
  bool tried() const { return reached != nullptr || failed != nullptr; }
};
Path path_between(const Findings& findings, std::size_t from, std::size_t to);
/// From a host to the job's store.
Path path_to_store(const HostFindings& host);
const MeasuredPair* measured_between(const Findings& findings, std::size_t from, std::size_t to);

/// What the host says of a transport; null when it knows none of that name.
const TransportFacts* transport_of(const HostFacts& facts, const std::string& name);

/// Bits per second; 0 when nothing was measured.
double bandwidth_of(const agent::Measured& measured);
/// "9.41", "0.0012": bits per second in Gbit/s, with two digits of what is slow.
std::string gigabits(double bits_per_second);

}  // namespace rondel::doctor
