// SPDX-License-Identifier: Apache-2.0
// What torchrun's environment says about where to meet: MASTER_ADDR and MASTER_PORT, and the private
// directory that the ranks of one host share. Any thread; may ask the system's resolver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/deadline.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel::c {

struct TorchrunMaster {
  std::string host;        ///< MASTER_ADDR
  std::uint16_t port = 0;  ///< MASTER_PORT + 1: torch itself listens on MASTER_PORT
  bool is_pod = false;     ///< `host` is for others: rank 0 need not know itself by it

  /// MASTER_ADDR means this host only, by its spelling: "localhost", 127.0.0.0/8, ::1.
  bool is_loopback() const;
};

/// MASTER_ADDR and MASTER_PORT are there, neither of them empty.
bool has_torchrun_master();

/// invalid_argument, with every way to start in it, when the variables are not there or make no sense.
Result<TorchrunMaster> torchrun_master();

/// MASTER_PORT + 1; `usual` in its place when it is not set.
Result<std::uint16_t> master_port(std::optional<std::uint16_t> usual);

/// Where rank 0 listens, as this host sees it. For rank 0 the numeric address that MASTER_ADDR resolves to; a
/// name that is not known yet (a headless service's) is asked for again until the deadline. For others the
/// name itself, which they ask for anew with every try to connect. Where it resolves to loopback although
/// other hosts take part (a host name that /etc/hosts maps to 127.0.1.1), this is rank 0's host, and the
/// address is that of its default route; so it is for rank 0's pod.
Result<std::string> resolve(const TorchrunMaster& master, Rank rank, bool one_host, const std::string& net,
                            Deadline deadline);

enum class Sharing { on_this_host, among_hosts };

/// $XDG_RUNTIME_DIR/rondel, else $HOME/.cache/rondel: created when missing, refused when it is not this
/// user's alone. Among hosts only the latter, as the former is each host's own.
Result<std::string> private_directory(Sharing sharing);

}  // namespace rondel::c
