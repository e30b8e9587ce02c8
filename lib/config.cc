// SPDX-License-Identifier: Apache-2.0
#include "lib/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "lib/nearest_name.h"
#include "lib/starters.h"

namespace rondel {
namespace {

/// A value as it was found: under the option's own name or under its alias.
struct Found {
  std::string_view name;
  std::string_view value;
};

Status wrong_value(const Found& found, std::string_view expected) {
  return Status(Code::invalid_argument,
                fmt::format("{} is \"{}\", expected {}", found.name, found.value, expected),
                fmt::format("set {} to such a value or unset it", found.name));
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <auto Member, std::int32_t kLeast, std::int32_t kMost = std::numeric_limits<std::int32_t>::max()>
Status set_count(Config& config, const Found& found) {
  const auto number = parse_number<std::int32_t>(found.value);
  if (!number || *number < kLeast || *number > kMost)
    return wrong_value(found, fmt::format("a whole number from {} to {}", kLeast, kMost));
  config.*Member = *number;
  return {};
}

template <auto Member>
Status set_text(Config& config, const Found& found) {
  config.*Member = found.value;
  return {};
}

template <auto Member>
Status set_seconds(Config& config, const Found& found) {
  constexpr double kMost = 1e8;
  const auto seconds = parse_number<double>(found.value);
  if (!seconds || !(*seconds >= 0.001 && *seconds <= kMost))
    return wrong_value(found, "seconds from 0.001 to 100000000, such as 30 or 2.5");
  config.*Member = std::chrono::milliseconds(std::llround(*seconds * 1000.0));
  return {};
}

Status set_spin(Config& config, const Found& found) {
  const auto microseconds = parse_number<std::int64_t>(found.value);
  if (!microseconds || *microseconds < 0 || *microseconds > 1'000'000)
    return wrong_value(found, "whole microseconds from 0 to 1000000");
  config.spin = std::chrono::microseconds(*microseconds);
  return {};
}

Status set_segment(Config& config, const Found& found) {
  std::string_view digits = found.value;
  unsigned shift = 0;
  switch (digits.empty() ? '\0' : digits.back()) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
    default:
      break;
  }
  if (shift != 0) digits.remove_suffix(1);
  const auto number = parse_number<std::uint64_t>(digits);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  if (!number || *number > (kMost >> shift))
    return wrong_value(found, "bytes up to 1024G, such as 65536, 64K or 1M (0: the transport's preference)");
  config.segment_bytes = static_cast<std::size_t>(*number << shift);
  return {};
}

template <auto Member>
Status set_flag(Config& config, const Found& found) {
  std::string word(found.value);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool yes = word == "1" || word == "true" || word == "yes" || word == "on";
  const bool no = word == "0" || word == "false" || word == "no" || word == "off";
  if (!yes && !no) return wrong_value(found, "1 or 0 (also true/false, yes/no, on/off)");
  config.*Member = yes;
  return {};
}

Status set_algorithm(Config& config, const Found& found) {
  constexpr std::array<std::string_view, 5> kNames{"ring", "circulant", "one_shot", "recursive_doubling",
                                                   "hierarchical"};
  if (std::find(kNames.begin(), kNames.end(), found.value) == kNames.end())
    return wrong_value(found, "ring, circulant, one_shot, recursive_doubling or hierarchical");
  config.algorithm = found.value;
  return {};
}

Status set_log_level(Config& config, const Found& found) {
  constexpr std::array<std::string_view, 6> kNames{"trace", "debug", "info", "warn", "error", "off"};
  const auto at = std::find(kNames.begin(), kNames.end(), found.value);
  if (at == kNames.end()) return wrong_value(found, "trace, debug, info, warn, error or off");
  config.log_level = static_cast<LogLevel>(at - kNames.begin());
  return {};
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const auto port = parse_number<std::uint16_t>(text);
  return port && *port != 0 ? port : std::nullopt;
}

Status set_store(Config& config, const Found& found) {
  constexpr std::string_view kTcp = "tcp://", kFile = "file:///";
  const auto colon = found.value.rfind(':');
  const bool tcp =
      found.value.starts_with(kTcp) && colon > kTcp.size() && parse_port(found.value.substr(colon + 1));
  const bool file = found.value.starts_with(kFile) && found.value.size() > kFile.size();
  if (!tcp && !file) return wrong_value(found, "tcp://host:port or file:///directory");
  config.store = found.value;
  return {};
}

Status set_ports(Config& config, const Found& found) {
  const auto dash = found.value.find('-');
  if (dash != std::string_view::npos) {
    const auto first = parse_port(found.value.substr(0, dash));
    const auto last = parse_port(found.value.substr(dash + 1));
    if (first && last && *first <= *last) {
      config.port_range = found.value;
      return {};
    }
  }
  return wrong_value(found, "first-last with ports from 1 to 65535, such as 40000-40100");
}

struct Row {
  ConfigOption option;
  Status (*apply)(Config&, const Found&);
};

constexpr std::array kRows{
    Row{{"RONDEL_RANK", "RANK", "number", "unset",
         "This process's rank in the job, from 0; set by the launcher. In a pod of a Kubernetes Job whose "
         "manifest sets RONDEL_SIZE it is JOB_COMPLETION_INDEX when unset."},
        set_count<&Config::rank, 0, kMostRanks - 1>},
    Row{{"RONDEL_SIZE", "WORLD_SIZE", "number", "unset", "Ranks in the job; set by the launcher."},
        set_count<&Config::size, 1, kMostRanks>},
    Row{{"RONDEL_LOCAL_RANK", "LOCAL_RANK", "number", "unset",
         "This process's place among the ranks of its host, from 0; set by the launcher."},
        set_count<&Config::local_rank, 0, kMostRanks - 1>},
    Row{{"RONDEL_LOCAL_SIZE", "LOCAL_WORLD_SIZE", "number", "unset",
         "Ranks of the job on this host; set by the launcher."},
        set_count<&Config::local_size, 1, kMostRanks>},
    Row{{"RONDEL_STORE", "", "address", "unset",
         "Where the ranks meet: tcp://host:port or file:///directory; set by the launcher."},
        set_store},
    Row{{"RONDEL_JOB", "", "name", "unset", "Names the job in logs and store keys; set by the launcher."},
        set_text<&Config::job>},
    Row{{"RONDEL_SECRET_FD", "", "descriptor", "unset",
         "Inherited descriptor that the job secret is read from; set by the launcher."},
        set_count<&Config::secret_fd, 0>},
    Row{{"RONDEL_SECRET_FILE", "", "path", "unset",
         "File (mode 0600) that holds the job secret, for jobs that start without the launcher."},
        set_text<&Config::secret_file>},
    Row{{"RONDEL_TRANSPORT", "", "name", "unset",
         "Transport to use: shm, tcp, verbs, or shm+tcp, shm+verbs (shm inside each host); unset: the best "
         "that all ranks share."},
        set_text<&Config::transport>},
    Row{{"RONDEL_ALGORITHM", "", "name", "unset",
         "ring, circulant, one_shot, recursive_doubling or hierarchical; unset: chosen from size and "
         "measured cost, and ranks of one machine load and store where they can, which no name here "
         "does."},
        set_algorithm},
    Row{{"RONDEL_SEGMENT_BYTES", "", "bytes", "0",
         "Pipelining unit of a chunk, with K, M or G for powers of 1024; 0: the transport's preference."},
        set_segment},
    Row{{"RONDEL_NET", "", "list", "unset",
         "Networks to use: interface names and CIDRs, comma separated, ^ in front excludes; unset: all "
         "usable."},
        set_text<&Config::net>},
    Row{{"RONDEL_PORTS", "", "range", "unset",
         "Ports for listeners, first-last; unset: the kernel chooses. Set it where a firewall stands between "
         "hosts."},
        set_ports},
    Row{{"RONDEL_TCP_CONGESTION", "", "name", "auto",
         "Congestion control of TCP links: auto (cubic on short paths), system, or a name the kernel knows."},
        set_text<&Config::tcp_congestion>},
    Row{{"RONDEL_SHM_PULL", "", "0 or 1", "1",
         "Between ranks of one machine: reads large messages from the sender's memory with process_vm_readv; "
         "0 "
         "copies them through shared memory. Buffers from rondel_alloc need neither."},
        set_flag<&Config::shm_pull>},
    Row{{"RONDEL_VERBS_DEVICE", "", "name", "unset",
         "RDMA device to use, with or without a port, such as mlx5_0 or mlx5_0:1; unset: the fastest port "
         "that works."},
        set_text<&Config::verbs_device>},
    Row{{"RONDEL_VERBS_GID_INDEX", "", "number", "unset",
         "Which of the RDMA port's addresses (GIDs) to use; unset: RoCE v2 over IPv4 before others."},
        set_count<&Config::verbs_gid_index, 0>},
    Row{{"RONDEL_VERBS_PKEY_INDEX", "", "number", "0",
         "Which entry of the RDMA port's partition table to use; both ends' entries hold the same "
         "partition."},
        set_count<&Config::verbs_pkey_index, 0, 65'535>},
    Row{{"RONDEL_VERBS_SERVICE_LEVEL", "", "number", "0",
         "Service level of RDMA packets, 0 to 15: the lane of an InfiniBand network, the priority (PCP) on a "
         "VLAN of RoCE."},
        set_count<&Config::verbs_service_level, 0, 15>},
    Row{{"RONDEL_VERBS_TRAFFIC_CLASS", "", "number", "0",
         "Traffic class of RDMA packets, 0 to 255. On RoCE v2 it is the IP header's: DSCP times 4, as the "
         "switches' PFC and ECN settings expect it."},
        set_count<&Config::verbs_traffic_class, 0, 255>},
    Row{{"RONDEL_VERBS_QPS", "", "number", "1",
         "Queue pairs to each peer, 1 to 8, for devices that do not fill the line with one; of two ranks the "
         "smaller number counts."},
        set_count<&Config::verbs_qps, 1, 8>},
    Row{{"RONDEL_VERBS_KEEP_MEMORY", "", "0 or 1", "1",
         "Keeps memory that is not of rondel_alloc registered between operations, for as long as the kernel "
         "tells of its changes (userfaultfd); 0: registers it for each operation."},
        set_flag<&Config::verbs_keep_memory>},
    Row{{"RONDEL_SPIN_US", "", "microseconds", "1000",
         "How long a wait polls before it sleeps, unless ranks outnumber cores."},
        set_spin},
    Row{{"RONDEL_ENCRYPT", "", "0 or 1", "0",
         "Encrypts TCP links; not in this version, which refuses it where TCP is used."},
        set_flag<&Config::encrypt>},
    Row{{"RONDEL_TIMEOUT_S", "", "seconds", "300",
         "Longest time that one operation may take; decimals allowed."},
        set_seconds<&Config::timeout>},
    Row{{"RONDEL_START_TIMEOUT_S", "", "seconds", "60", "Longest time to find and connect all ranks."},
        set_seconds<&Config::start_timeout>},
    Row{{"RONDEL_HANDSHAKE_TIMEOUT_S", "", "seconds", "5",
         "Longest time that a stranger may hold a socket before it has proved that it belongs to the job."},
        set_seconds<&Config::handshake_timeout>},
    Row{{"RONDEL_SILENCE_TIMEOUT_S", "", "seconds", "10",
         "Time after which a silent host counts as lost (keep-alive, unacknowledged data)."},
        set_seconds<&Config::silence_timeout>},
    Row{{"RONDEL_LOG", "", "level", "warn", "trace, debug, info, warn, error or off."}, set_log_level},
};

/// Under which names rank, size, local rank and local size were found; the first rows of the table, in this
/// order.
using IdentityNames = std::array<std::string_view, 4>;

Status below(Rank rank, std::string_view rank_name, Rank size, std::string_view size_name) {
  if (rank < size) return {};
  return Status(Code::invalid_argument, fmt::format("{} is {}, expected 0 to {} because {} is {}", rank_name,
                                                    rank, size - 1, size_name, size));
}

/// Ranks and sizes must agree with one another; a missing half is never guessed.
Status check_identity(const Config& config, const IdentityNames& names) {
  if (config.rank.has_value() != config.size.has_value()) {
    const bool have_rank = config.rank.has_value();
    return Status(
        Code::invalid_argument,
        fmt::format("{} is {} but there is no {}", names[have_rank ? 0 : 1],
                    have_rank ? *config.rank : *config.size, have_rank ? "size" : "rank"),
        "set both RONDEL_RANK and RONDEL_SIZE (or RANK and WORLD_SIZE), or neither for a single process");
  }
  if (config.rank) RONDEL_TRY(below(*config.rank, names[0], *config.size, names[1]));
  if (config.local_rank && config.local_size)
    RONDEL_TRY(below(*config.local_rank, names[2], *config.local_size, names[3]));
  if (config.size && config.local_size && *config.local_size > *config.size)
    return Status(Code::invalid_argument,
                  fmt::format("{} is {}, expected at most {} because {} is {}", names[3], *config.local_size,
                              *config.size, names[1], *config.size));
  return {};
}

/// srun, hydra or mpirun say who this process is, so that half of what torchrun would say, which scripts
/// export for their own use, is no mistake.
bool started_by_another(const Lookup& lookup) {
  constexpr std::array kNames{starters::kSlurm.mark, starters::kPmi.rank, starters::kOpenMpi.rank};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&lookup](const char* name) { return lookup(name) != nullptr; });
}

/// Says once per process which RONDEL_* variables mean nothing; of a job's ranks only the first one speaks.
void warn_of_unknown_variables(const Config& config) {
  static std::atomic<bool> warned{false};
  if (config.log_level > LogLevel::warn || config.rank.value_or(0) != 0) return;
  if (warned.exchange(true, std::memory_order_relaxed)) return;  // relaxed: a flag of its own, orders nothing
  std::array<std::string_view, kRows.size()> known;
  std::transform(kRows.begin(), kRows.end(), known.begin(), [](const Row& row) { return row.option.name; });
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    if (!name.starts_with("RONDEL_") || name.starts_with("RONDEL_TEST_"))
      continue;  // the latter: the tests' own
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string_view nearest = nearest_name(name, known);
    log(LogLevel::warn, "environment variable {} is not an option of Rondel and has no effect{}", name,
        nearest.empty() ? std::string() : fmt::format("; did you mean {}?", nearest));
  }
}

}  // namespace

Result<Config> Config::from_lookup(const Lookup& lookup) {
  Config config;
  std::array<std::string_view, kRows.size()> found_as;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const Row& row = kRows[i];
    for (const std::string_view name : {row.option.name, row.option.alias}) {
      const char* value = name.empty() ? nullptr : lookup(std::string(name).c_str());
      if (value == nullptr || *value == '\0') continue;  // empty counts as unset
      RONDEL_TRY(row.apply(config, Found{name, value}));
      found_as[i] = name;
      break;
    }
  }
  // A pod of a Kubernetes Job in Indexed mode is told its index; how many there are, its manifest has to say.
  constexpr const char* kIndex = "JOB_COMPLETION_INDEX";
  const char* const index = config.size && !config.rank ? lookup(kIndex) : nullptr;
  if (index != nullptr) {
    RONDEL_TRY(kRows[0].apply(config, Found{kIndex, index}));
    found_as[0] = kIndex;
  }
  if (config.rank.has_value() != config.size.has_value() && started_by_another(lookup) &&
      !found_as[0].starts_with("RONDEL_") && !found_as[1].starts_with("RONDEL_"))
    config.rank = config.size = std::nullopt;
  RONDEL_TRY(check_identity(config, {found_as[0], found_as[1], found_as[2], found_as[3]}));
  return config;
}

Result<Config> Config::from_environment() {
  auto config = from_lookup(environment_variable);
  if (config.ok()) warn_of_unknown_variables(*config);
  return config;
}

std::span<const ConfigOption> config_options() {
  static const auto kOptions = [] {
    std::array<ConfigOption, kRows.size()> options;
    std::transform(kRows.begin(), kRows.end(), options.begin(), [](const Row& row) { return row.option; });
    return options;
  }();
  return kOptions;
}

std::string config_help() {
  std::string help = "Rondel reads these environment variables. An empty value counts as unset.\n\n";
  for (const ConfigOption& option : config_options()) {
    const std::string alias = option.alias.empty() ? "" : fmt::format(" (else {})", option.alias);
    help += fmt::format("{}{}\n    {} [{}, default: {}]\n", option.name, alias, option.text, option.unit,
                        option.default_value);
  }
  return help;
}

const char* environment_variable(const char* name) { return std::getenv(name); }

std::string value_of(const Lookup& lookup, const char* name) {
  const char* const value = lookup(name);
  return value == nullptr ? std::string() : value;
}

}  // namespace rondel
