// SPDX-License-Identifier: Apache-2.0
// Every RONDEL_* option in one table: name, unit, default, text. The only caller of getenv in the project.
// The table also makes `rondelrun --help-config` and the man page. Read once at start; a value, any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/log.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

/// A variable's value by its name; null when unset.
using Lookup = std::function<const char*(const char* name)>;
/// The same, where an empty value counts as unset.
std::string value_of(const Lookup& lookup, const char* name);

struct Config {
  // who am I; set by the launcher
  std::optional<Rank> rank;        // RONDEL_RANK        (else RANK)
  std::optional<Rank> size;        // RONDEL_SIZE        (else WORLD_SIZE)
  std::optional<Rank> local_rank;  // RONDEL_LOCAL_RANK  (else LOCAL_RANK)
  std::optional<Rank> local_size;  // RONDEL_LOCAL_SIZE  (else LOCAL_WORLD_SIZE)
  std::string store;               // RONDEL_STORE: tcp://host:port or file:///directory
  std::string job;                 // RONDEL_JOB: names the job in logs and store keys
  std::optional<int> secret_fd;    // RONDEL_SECRET_FD
  std::string secret_file;         // RONDEL_SECRET_FILE

  // choices
  std::string transport;                // RONDEL_TRANSPORT: empty = best that all ranks share
  std::string algorithm;                // RONDEL_ALGORITHM
  std::size_t segment_bytes = 0;        // RONDEL_SEGMENT_BYTES: 0 = the transport's preference
  std::string net;                      // RONDEL_NET: names, CIDRs, ^exclude, comma separated
  std::string port_range;               // RONDEL_PORTS: "first-last" for listeners; empty = kernel's choice
  std::string tcp_congestion = "auto";  // RONDEL_TCP_CONGESTION: auto, system, or a name
  bool shm_pull = true;                 // RONDEL_SHM_PULL: read peers' memory where it is
  std::string verbs_device;             // RONDEL_VERBS_DEVICE: empty = the fastest port that works
  std::optional<std::int32_t> verbs_gid_index;  // RONDEL_VERBS_GID_INDEX
  std::int32_t verbs_pkey_index = 0;            // RONDEL_VERBS_PKEY_INDEX
  std::int32_t verbs_service_level = 0;         // RONDEL_VERBS_SERVICE_LEVEL
  std::int32_t verbs_traffic_class = 0;         // RONDEL_VERBS_TRAFFIC_CLASS
  std::int32_t verbs_qps = 1;                   // RONDEL_VERBS_QPS: queue pairs to each peer
  bool verbs_keep_memory = true;                // RONDEL_VERBS_KEEP_MEMORY: what is not rondel_alloc's too
  std::chrono::microseconds spin{1000};         // RONDEL_SPIN_US: polling before blocking
  bool encrypt = false;                         // RONDEL_ENCRYPT

  // limits
  std::chrono::milliseconds timeout{300'000};  // RONDEL_TIMEOUT_S: each operation (decimals allowed)
  std::chrono::milliseconds start_timeout{
      60'000};  // RONDEL_START_TIMEOUT_S: finding and connecting all ranks
  std::chrono::milliseconds handshake_timeout{
      5'000};  // RONDEL_HANDSHAKE_TIMEOUT_S: a stranger's time on a socket
  std::chrono::milliseconds silence_timeout{
      10'000};  // RONDEL_SILENCE_TIMEOUT_S: TCP_USER_TIMEOUT, keep-alive

  // seeing
  LogLevel log_level = LogLevel::warn;  // RONDEL_LOG: trace, debug, info, warn, error, off

  /// Reads the process environment. invalid_argument names the variable, the value found and what was
  /// expected; rank without size (or the reverse), or a rank outside the size, is such an error too.
  static Result<Config> from_environment();
  /// The same from any lookup, for tests.
  static Result<Config> from_lookup(const Lookup& lookup);
};

/// One row of the table, for help texts.
struct ConfigOption {
  std::string_view name;           // RONDEL_TIMEOUT_S
  std::string_view alias;          // fallback variable, may be empty: RANK
  std::string_view unit;           // "seconds", "bytes", "name", ...
  std::string_view default_value;  // as the user would write it; "unset" when there is none
  std::string_view text;           // one sentence
};
std::span<const ConfigOption> config_options();

/// The table as text, for --help-config.
std::string config_help();

/// The environment variable `name`, for what is not an option of ours (HOME, PATH); null when unset.
const char* environment_variable(const char* name);

}  // namespace rondel
