// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/start.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "bindings/c/errors.h"
#include "bindings/c/foreign_job.h"
#include "bindings/c/indexed_job.h"
#include "bindings/c/pmi.h"
#include "bindings/c/process_state.h"
#include "bindings/c/torchrun.h"
#include "lib/hexadecimal.h"
#include "lib/host_identity.h"
#include "lib/log.h"
#include "lib/process_facts.h"
#include "lib/store/file_store.h"
#include "lib/store/tcp_client.h"

namespace rondel::c {
namespace {

Status check_rank(Rank rank, Rank size) {
  if (size > kMostRanks)
    return wrong(fmt::format("a job of {} ranks was asked for, expected at most {}", size, kMostRanks));
  if (size >= 1 && rank >= 0 && rank < size) return {};
  return wrong(fmt::format("rank {} of {} ranks does not exist", rank, size),
               "ranks count from 0 to size - 1");
}

Result<Started> start_alone(const Config& config) {
  auto secret = Secret::generate();
  RONDEL_TRY(secret);
  Entry entry{
      .rank = 0, .size = 1, .name = "world", .point = {"", *secret}, .store = nullptr, .server = nullptr};
  return start_job(config, std::move(entry), Deadline::in(config.start_timeout));
}

/// All ranks of one job use the launcher's store again and again, so that each start needs names of its own.
std::string world_name(std::uint64_t generation) {
  return generation == 0 ? "world" : fmt::format("world.{}", generation);
}

Result<Started> start_at_launcher(const Config& config, const std::string& address) {
  const Deadline deadline = Deadline::in(config.start_timeout);
  auto secret = ProcessState::instance().secret_of(config);
  RONDEL_TRY(secret);
  auto store = connect_tcp_store(address, *secret, deadline, config.silence_timeout);
  if (!store.ok())
    return without_meeting_point(
        std::move(store).status().with("joining the launcher's meeting point (RONDEL_STORE)"), *config.rank,
        false);
  const auto generation = ProcessState::instance().next_generation("launcher");
  Entry entry{.rank = *config.rank,
              .size = *config.size,
              .name = world_name(generation),
              .point = {address, *secret},
              .store = std::move(store).value(),
              .server = nullptr};
  return start_job(config, std::move(entry), deadline);
}

/// Rank 0 serves the meeting point on `bind_address` and leaves it in the rendezvous, the others read it
/// there.
Result<Entry> enter_through(const Config& config, const Rendezvous& rendezvous, const std::string& key,
                            Rank rank, Rank size, const std::string& bind_address, Deadline deadline) {
  if (rank != 0) {
    auto joined = join_through(config, rendezvous, key, deadline);
    if (!joined.ok()) return without_meeting_point(std::move(joined).status(), rank, true);
    return Entry{.rank = rank,
                 .size = size,
                 .point = joined->point,
                 .store = std::move(joined->store),
                 .served_by_rank_0 = true,
                 .server = nullptr};
  }
  auto secret = Secret::generate();
  RONDEL_TRY(secret);
  auto hosted = host_meeting_point(config, *secret, bind_address, 0);
  RONDEL_TRY(hosted);
  const auto value = encode(hosted->point);
  RONDEL_TRY(value);
  if (Status set = rendezvous.set(key, *value); !set.ok())
    return std::move(set).with("leaving the job's meeting point for the other ranks");
  auto store = connect_tcp_store(hosted->point.address, *secret, deadline, config.silence_timeout);
  if (!store.ok())
    return with_hint(std::move(store).status().with("rank 0 can not reach the meeting point that it keeps"),
                     "see that its network interface is up (ip link set lo up for 127.0.0.1), or choose one "
                     "with RONDEL_NET");
  return Entry{.rank = rank,
               .size = size,
               .point = hosted->point,
               .store = std::move(store).value(),
               .served_by_rank_0 = true,
               .server = std::move(hosted->server),
               .clear_away = [take_back = rendezvous.take_back, key, value = *value] {
                 if (take_back) take_back(key, value);
               }};
}

Result<Started> start_through(const Settings& settings, const Rendezvous& rendezvous, const std::string& kind,
                              Rank rank, Rank size, bool one_host) {
  const Config& config = settings.config;
  const Deadline deadline = Deadline::in(config.start_timeout);
  const std::string job = config.job.empty() ? "job" : config.job;
  const auto generation = ProcessState::instance().next_generation(fmt::format("{}/{}/{}", kind, job, rank));
  const std::string key = fmt::format("rondel/{}/{}", job, generation);
  const auto address = reachable_address(settings.address, one_host, config.net);
  RONDEL_TRY(address);
  auto entry = enter_through(config, rendezvous, key, rank, size, *address, deadline);
  RONDEL_TRY(entry);
  return start_job(config, std::move(entry).value(), deadline);
}

bool all_local(const Config& config, Rank size) { return config.local_size && *config.local_size == size; }

bool has_secret(const Config& config) { return config.secret_fd || !config.secret_file.empty(); }

/// A wait that was in vain gets one more hint.
Status advised(Status failed, const std::string& advice) {
  return failed.code() == Code::timed_out ? with_hint(std::move(failed), advice) : failed;
}

/// The user's own, in which keys of jobs that crashed would stay for good.
Result<std::string> shared_directory(Sharing sharing, Rank rank) {
  constexpr std::chrono::hours kForgotten{7 * 24};  // longer than starts take
  auto directory = private_directory(sharing);
  if (directory.ok() && rank == 0) forget_old_values(*directory, kForgotten);
  return directory;
}

/// `advice` is for ranks that do not find one another there.
Result<Started> start_in_directory(const Settings& settings, const std::string& directory, Rank rank,
                                   Rank size, bool one_host, const std::string& advice = {}) {
  auto opened = open_file_store(directory);
  RONDEL_TRY(opened);
  Store& store = **opened;
  const Deadline deadline = Deadline::in(settings.config.start_timeout);
  const Rendezvous rendezvous{
      .set = [&store, deadline](const std::string& key,
                                std::span<const std::byte> value) { return store.set(key, value, deadline); },
      .get = [&store, &advice](const std::string& key, Deadline until) -> Result<Bytes> {
        auto value = store.get(key, until);
        if (value.ok()) return value;
        return advised(std::move(value).status(), advice);
      },
      .take_back =
          [directory](const std::string& key, std::span<const std::byte> value) {
            constexpr std::chrono::milliseconds kPatience{100};
            const Status taken = take_back(directory, key, value, Deadline::in(kPatience));
            if (!taken.ok())
              log(LogLevel::info, "the job's meeting point stays in {}: {}", directory, taken.text());
          }};
  auto started = start_through(settings, rendezvous, directory, rank, size, one_host);
  if (started.ok() || rank != 0) return started;
  return advised(std::move(started).status(), advice);
}

std::string serving_key(std::uint64_t generation) { return fmt::format("serving/{}", generation); }

/// Connects to rank 0 at an address that its servers of successive starts share, and makes sure that it is
/// this start's.
Result<std::unique_ptr<Store>> connect_to_start(const Config& config, const MeetingPoint& point,
                                                std::uint64_t generation, Deadline deadline) {
  constexpr std::chrono::milliseconds kPause{50};
  constexpr std::chrono::seconds kTry{2};
  Status last;
  while (last.ok() || !deadline.passed()) {
    auto store = connect_tcp_store(point.address, point.secret, deadline, config.silence_timeout);
    RONDEL_TRY(store);
    const auto serving = (*store)->get(serving_key(generation), Deadline::in(kTry).or_before(deadline));
    if (serving.ok()) return store;
    last = serving.status();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kPause, deadline.left()));
  }
  return last;
}

/// torchrun, when all ranks were given the secret: rank 0 listens where everybody can work out.
Result<Started> start_at_master(const Config& config, const TorchrunMaster& master, bool one_host) {
  const Deadline deadline = Deadline::in(config.start_timeout);
  const Rank rank = *config.rank;
  auto secret = ProcessState::instance().secret_of(config);
  RONDEL_TRY(secret);
  const auto host = resolve(master, rank, one_host, config.net, deadline);
  RONDEL_TRY(host);
  const auto generation = ProcessState::instance().next_generation(fmt::format("master/{}", rank));
  Entry entry{.rank = rank,
              .size = *config.size,
              .point = {socket_text(*host, master.port), *secret},
              .store = nullptr,
              .served_by_rank_0 = true,
              .server = nullptr};
  if (rank == 0) {
    auto hosted = host_meeting_point(config, *secret, *host, master.port);
    if (!hosted.ok()) {
      Failure failure = hosted.status().failure();
      failure.hint = fmt::format(
          "rank 0 listens on MASTER_PORT + 1 ({}) of MASTER_ADDR ({}), which must be its own host: set "
          "another MASTER_PORT or MASTER_ADDR on all ranks",
          master.port, master.host);
      return Status(hosted.status().code(), std::move(failure));
    }
    entry.server = std::move(hosted->server);
    auto own = connect_tcp_store(entry.point.address, *secret, deadline, config.silence_timeout);
    RONDEL_TRY(own);
    RONDEL_TRY((*own)->set(serving_key(generation), {}, deadline));
  }
  auto store = connect_to_start(config, entry.point, generation, deadline);
  if (!store.ok()) {
    const bool answered = store.code() == Code::refused;
    return without_meeting_point(
        with_hint(
            std::move(store).status().with(master.is_pod ? "joining rank 0's pod"
                                                         : "joining rank 0 at MASTER_ADDR, MASTER_PORT + 1"),
            answered ? ""
                     : fmt::format("see that rank 0 runs at {}, and that no firewall closes port {}",
                                   master.host, master.port)),
        rank, true);
  }
  entry.store = std::move(store).value();
  return start_job(config, std::move(entry), deadline);
}

Result<Started> start_under_torchrun(const Settings& settings) {
  const Config& config = settings.config;
  const auto pod = pod_master();
  const auto master = pod ? *pod : torchrun_master();
  RONDEL_TRY(master);
  const bool one_host = all_local(config, *config.size) || master->is_loopback();
  if (!one_host || has_secret(config)) return start_at_master(config, *master, one_host);
  const auto directory = shared_directory(Sharing::on_this_host, *config.rank);
  RONDEL_TRY(directory);
  Settings named = settings;
  named.config.job = fmt::format("{}/{}/{}", config.job, host_name(), master->port);
  return start_in_directory(named, *directory, *config.rank, *config.size, true);
}

/// Rank 0 leaves the meeting point in the launcher's key-value space; the barrier after that lets others see
/// it.
Result<Started> start_over_pmi(const Settings& settings, const ForeignJob& job) {
  const Config& config = settings.config;
  const Deadline deadline = Deadline::in(config.start_timeout);
  const auto begun = Pmi::begin(*job.pmi_descriptor, deadline);
  RONDEL_TRY(begun);
  Pmi& pmi = **begun;
  bool met = false;  // the others may read it more than once, but meet once
  // Keys are short there and without spaces; within one job the number of the start tells them apart.
  const auto short_key = [](const std::string& key) { return "rondel-" + key.substr(key.rfind('/') + 1); };
  const Rendezvous rendezvous{
      .set = [&pmi, &short_key, deadline](const std::string& key,
                                          std::span<const std::byte> value) -> Status {
        RONDEL_TRY(pmi.put(short_key(key), hexadecimal(value), deadline));
        return pmi.barrier(deadline);
      },
      .get = [&pmi, &met, &short_key](const std::string& key, Deadline until) -> Result<Bytes> {
        if (!met) RONDEL_TRY(pmi.barrier(until));
        met = true;
        const auto value = pmi.get(short_key(key), until);
        RONDEL_TRY(value);
        auto bytes = from_hexadecimal(*value);
        if (bytes) return *std::move(bytes);
        return Status(Code::refused,
                      "the launcher gives another value for the meeting point than rank 0 left (PMI)",
                      "see that all ranks load the same version of librondel.so");
      }};
  return start_through(settings, rendezvous, "pmi", *config.rank, *config.size,
                       all_local(config, *config.size));
}

/// srun, Open MPI's mpirun: they say who is who, and nothing by which the ranks could meet. The user's home
/// is there on all hosts of most clusters.
Result<Started> start_at_home(const Settings& settings, const ForeignJob& job) {
  const bool one_host = all_local(settings.config, job.size);
  const auto directory = shared_directory(one_host ? Sharing::on_this_host : Sharing::among_hosts, job.rank);
  RONDEL_TRY(directory);
  std::string advice = fmt::format("{} ({}) is to start all ranks; to run alone, unset {}", job.starter,
                                   job.variables, job.unset);
  if (!one_host)
    advice += fmt::format(
        "; if the others run, see that {} is one directory on all hosts: else set RONDEL_STORE=file:///... "
        "to one that is, or use srun --mpi=pmi2 or rondelrun",
        *directory);
  return start_in_directory(settings, *directory, job.rank, job.size, one_host, advice);
}

Config with_place_of(Config config, const ForeignJob& job) {
  config.rank = job.rank;
  config.size = job.size;
  config.local_rank = job.local_rank;
  config.local_size = job.local_size;
  // Never the user's name alone: two steps that inherit it must not take one another for one job.
  config.job = config.job.empty() ? job.name : fmt::format("{}/{}", job.name, config.job);
  return config;
}

}  // namespace

Result<Started> start_from_environment(const Settings& given) {
  constexpr std::string_view kTcp = "tcp://";
  constexpr std::string_view kFile = "file://";
  Settings settings = given;
  const auto foreign = foreign_job(environment_variable, environments_upwards);
  RONDEL_TRY(foreign);
  if (*foreign) settings.config = with_place_of(given.config, **foreign);
  const Config& config = settings.config;
  if (config.size.value_or(1) == 1) return start_alone(config);
  if (config.store.starts_with(kTcp)) return start_at_launcher(config, config.store.substr(kTcp.size()));
  if (config.store.starts_with(kFile)) {
    if (!config.secret_file.empty() || config.secret_fd)
      log(LogLevel::warn,
          "the given job secret is not used: with RONDEL_STORE={} rank 0 makes one and leaves it there",
          config.store);
    return start_in_directory(settings, config.store.substr(kFile.size()), *config.rank, *config.size,
                              all_local(config, *config.size));
  }
  if (!config.store.empty())
    return wrong(
        fmt::format("RONDEL_STORE is \"{}\", expected tcp://host:port or file:///directory", config.store));
  // Scripts written for torch export MASTER_ADDR whatever starts the ranks; it is of use with a secret only.
  if (!*foreign || (has_secret(config) && has_torchrun_master())) return start_under_torchrun(settings);
  if ((*foreign)->pmi_descriptor) return start_over_pmi(settings, **foreign);
  return start_at_home(settings, **foreign);
}

Result<Started> start_from_unique_id(const Settings& settings, std::span<const std::byte> id, Rank rank,
                                     Rank size) {
  RONDEL_TRY(check_rank(rank, size));
  auto point = decode_meeting_point(id);
  RONDEL_TRY(point);
  std::unique_ptr<TcpServer> server = rank == 0 ? ProcessState::instance().take(point->address) : nullptr;
  if (size == 1) return start_alone(settings.config);
  const Deadline deadline = Deadline::in(settings.config.start_timeout);
  auto store = connect_tcp_store(point->address, point->secret, deadline, settings.config.silence_timeout);
  if (!store.ok())
    return without_meeting_point(
        std::move(store).status().with("joining the meeting point of the unique id, which rank 0 keeps"),
        rank, true);
  Entry entry{.rank = rank,
              .size = size,
              .point = *point,
              .store = std::move(store).value(),
              .served_by_rank_0 = true,
              .server = std::move(server)};
  return start_job(settings.config, std::move(entry), deadline);
}

Result<Started> start_from_store(const Settings& settings, const Rendezvous& rendezvous, Rank rank,
                                 Rank size) {
  RONDEL_TRY(check_rank(rank, size));
  if (size == 1) return start_alone(settings.config);
  return start_through(settings, rendezvous, "caller's store", rank, size, all_local(settings.config, size));
}

Result<Bytes> make_unique_id(const Settings& settings) {
  auto secret = Secret::generate();
  RONDEL_TRY(secret);
  const bool one_host = settings.config.local_size && settings.config.local_size == settings.config.size;
  const auto address = reachable_address(settings.address, one_host, settings.config.net);
  RONDEL_TRY(address);
  auto hosted = host_meeting_point(settings.config, *secret, *address, 0);
  RONDEL_TRY(hosted);
  auto id = encode(hosted->point);
  RONDEL_TRY(id);
  ProcessState::instance().keep(std::move(hosted).value());
  return id;
}

}  // namespace rondel::c
