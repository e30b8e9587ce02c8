// SPDX-License-Identifier: Apache-2.0
// Which processors each rank of a host is bound to (--bind-to). Pure: a description of the host and rules in,
// a set of processors for each local rank out. It neither looks at the machine (machine.h) nor binds
// (process.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/cpu_set.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

/// One core, with its processors that may be used (hardware threads).
struct Core {
  CpuSet cpus;
  int socket = 0;
  int numa = 0;
};

/// A host's cores in the order in which the machine numbers them; each processor is in one of them.
struct Machine {
  std::vector<Core> cores;
};

/// `machine` without the processors that are not `allowed`, and without cores that have none left.
Machine restricted(Machine machine, const CpuSet& allowed);

enum class BindTo : std::uint8_t {
  none,
  hwthread,  ///< one hardware thread, its own
  core,      ///< all hardware threads of one core, its own
  socket,    ///< all cores of the socket that holds the rank's core
  numa       ///< all cores of the NUMA node that holds it
};
inline constexpr std::size_t kBindings = 5;

/// In which order local ranks take cores.
enum class TakeBy : std::uint8_t {
  target,  ///< as the binding suggests: core by core, or one of each socket or node in turn
  core,    ///< in the machine's order
  socket,  ///< one of each socket in turn, as long as it has cores left
  numa     ///< one of each NUMA node in turn
};
inline constexpr std::size_t kOrders = 4;

struct BindingRules {
  BindTo to = BindTo::none;
  TakeBy by = TakeBy::target;
  bool overload = false;  ///< more ranks than cores begin again with the first core
};

/// "core", "core:overload-allowed", ... as mpirun has them; nullopt for anything else. `by` stays default.
std::optional<BindingRules> parse_bind_to(std::string_view text);

/// The values of --map-by that are about a host: "core", "socket" (or "package"), "numa".
std::optional<TakeBy> parse_take_by(std::string_view text);

/// "core": the choice by its name.
std::string_view name_of(BindTo to);

/// One set for each of the local ranks 0 to `ranks` - 1; empty sets where nothing is to be bound.
/// invalid_argument, with the options that help: more ranks than cores (or hardware threads).
Result<std::vector<CpuSet>> bind_ranks(const Machine& machine, const BindingRules& rules, Rank ranks);

}  // namespace rondel
