// SPDX-License-Identifier: Apache-2.0
// What one host says of itself to `rondelrun doctor`: plain values, gathered by its agent, judged and shown
// by the launcher. No behaviour; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/types.h"

namespace rondel::doctor {

/// An address of the host, with what its interface can do.
struct NicFacts {
  std::string name;
  std::string address;
  std::uint8_t prefix_bits = 0;
  std::uint32_t mtu = 0;                     ///< 0: not known
  std::optional<std::int64_t> speed_mbit_s;  ///< none: virtual, or down
  std::optional<int> numa_node;
  bool chosen = false;  ///< ranks may use it: RONDEL_NET admits it
};

struct RdmaFacts {
  std::string device;
  int port = 0;
  std::string state;       ///< "ACTIVE"
  std::string link_layer;  ///< "InfiniBand", "Ethernet"
  std::string rate;        ///< "100 Gb/sec (4X EDR)"
  int gids = 0;            ///< entries of its table that are set
  std::optional<int> numa_node;
};

struct GpuFacts {
  std::string pci;    ///< 0000:3b:00.0
  std::string model;  ///< the driver's name for it, or vendor and device in hexadecimal
  std::optional<int> numa_node;
};

struct NumaFacts {
  int node = 0;
  std::string cpus;  ///< "0-15,32-47"
};

/// A soft and a hard limit; none: unlimited.
struct LimitFacts {
  std::optional<std::uint64_t> soft, hard;
};

/// What --check-build says of one transport.
struct TransportFacts {
  std::string name;
  bool built = false;
  bool usable = false;
  std::string why_not;
  std::string domain, joins;  ///< only hosts of equal domains are joined by it; whom it joins
};

/// How the host's own name is resolved.
struct NameFacts {
  std::string name;
  std::vector<std::string> addresses;
  std::string failure;  ///< the resolver's words, when there is no address
  std::int64_t took_ms = 0;
};

/// Where the host listens for the others, and what it would have for ranks.
struct PortFacts {
  std::vector<std::uint16_t> listening;
  std::optional<std::int64_t> free_in_range;  ///< of RONDEL_PORTS; none when that is not set
  std::string failure;                        ///< why nothing listens
};

struct HostFacts {
  std::string kernel;     ///< release and architecture
  int machine_cores = 0;  ///< that there are
  int usable_cores = 0;   ///< that a rank may use: affinity and control group
  std::optional<int> cgroup_cores;
  std::uint64_t memory_bytes = 0, memory_free_bytes = 0;
  std::uint64_t shm_bytes = 0, shm_free_bytes = 0;  ///< /dev/shm; 0: there is none
  LimitFacts open_files, locked_bytes;
  bool may_lock = false;  ///< CAP_IPC_LOCK: locks more than the limit
  std::vector<NicFacts> nics;
  std::string nic_failure;      ///< why no interface is chosen
  std::string binding_failure;  ///< why ranks can not be bound as was asked for
  std::vector<RdmaFacts> rdma;
  std::vector<GpuFacts> gpus;
  std::vector<NumaFacts> numa;
  std::vector<TransportFacts> transports;
  NameFacts own_name;
  PortFacts ports;
  std::string congestion_control;
};

}  // namespace rondel::doctor
