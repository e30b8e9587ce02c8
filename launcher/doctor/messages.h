// SPDX-License-Identifier: Apache-2.0
// The messages of `rondelrun doctor`, which examines hosts in place of running a job on them: a part of
// agent_protocol.h, which says how they are written. Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/binding.h"
#include "lib/memory.h"

namespace rondel::agent {

// Of the launcher:

/// In place of an Order: say what the host is like, and answer the others' probes until Finish.
struct Examine {
  std::uint32_t host = 0;  ///< its number, by which others can tell who answers
  Bytes secret;
  std::string net, ports;             ///< RONDEL_NET, RONDEL_PORTS
  std::uint32_t ranks = 0;            ///< that the job would start there
  BindingRules binding;               ///< of them
  std::chrono::milliseconds silence;  ///< as in an Order
};
struct ClockAsk {
  std::uint32_t number = 0;
};
/// Addresses at which one host, or the job's store, should be found.
struct ProbeTarget {
  std::uint32_t host = 0;
  bool store = false;
  std::vector<std::string> addresses;  ///< "10.0.0.1:4321", best first
};
/// Try to connect to all of them.
struct Reach {
  std::vector<ProbeTarget> targets;
  std::chrono::milliseconds patience{};  ///< for one address
  std::chrono::milliseconds limit{};     ///< for all
};
/// Exchange small messages, then large ones, with one host.
struct Measure {
  std::uint32_t host = 0;
  std::string address;
  std::chrono::milliseconds time{};   ///< of the large ones
  std::chrono::milliseconds limit{};  ///< for all
};

// Of the agent:

/// HostFacts, as JSON.
struct Examined {
  std::string facts;
};
struct ClockTell {
  std::uint32_t number = 0;
  std::uint64_t nanoseconds = 0;  ///< since 1970
};
struct Attempt {
  std::uint32_t host = 0;
  bool store = false;
  std::string address;
  bool reached = false;
  std::string why_not;
};
struct Reached {
  std::vector<Attempt> attempts;
};
struct Measured {
  std::uint32_t host = 0;
  std::string why_not;  ///< what went wrong after the numbers that are there; empty: nothing
  std::uint64_t round_trip_ns = 0;
  std::uint64_t bytes = 0, bulk_ns = 0;  ///< as the other side counted
  std::uint32_t path_mtu = 0;
};

}  // namespace rondel::agent
