// SPDX-License-Identifier: Apache-2.0
#include "tests/bindings/job_world.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "lib/auth.h"
#include "lib/store/file_store.h"
#include "lib/store/tcp_server.h"
#include "lib/wire.h"

namespace rondel::test {
namespace {

constexpr std::chrono::seconds kStart{20};

std::string secret_path(const std::string& folder) { return folder + "/secret"; }
std::string store_path(const std::string& folder) { return folder + "/store"; }

void write_secret(const std::string& folder) {
  const auto secret = Secret::generate();
  if (!secret.ok()) throw std::runtime_error(secret.status().text());
  const int fd = ::open(secret_path(folder).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const auto bytes = secret->bytes();
  const bool written = ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(fd);
  if (!written) throw std::runtime_error("can not write the job's secret");
}

/// The launcher's part of a job: serves the meeting point until it is killed.
void serve(RankTest& test, const std::string& folder) {
  const auto secret = Secret::from_file(secret_path(folder));
  test.require_ok(secret, "the stand-in's secret");
  const auto server = TcpServer::start({}, *secret);
  test.require_ok(server, "the stand-in's server");
  const auto store = open_file_store(store_path(folder));
  test.require_ok(store, "the stand-in's folder");
  test.require_ok((*store)->set("address", wire::as_bytes((*server)->address())), "the stand-in's address");
  while (true) ::pause();
}

void set(const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }

void set_environment(RankTest& test, const std::string& folder, Rank ranks,
                     const ProcessJobOptions& options) {
  set("RONDEL_RANK", std::to_string(test.rank()));
  set("RONDEL_SIZE", std::to_string(ranks));
  set("RONDEL_LOCAL_RANK", std::to_string(test.rank()));
  set("RONDEL_LOCAL_SIZE", std::to_string(ranks));
  set("RONDEL_TIMEOUT_S", options.timeout_seconds);
  set("RONDEL_START_TIMEOUT_S", std::to_string(kStart.count()));
  set("RONDEL_STORE", "file://" + store_path(folder));
  if (options.server == Server::launcher) {
    auto store = open_file_store(store_path(folder));
    test.require_ok(store, "the job's folder");
    const auto address = (*store)->get("address", Deadline::in(kStart));
    test.require_ok(address, "the stand-in's address");
    set("RONDEL_STORE",
        "tcp://" + std::string(reinterpret_cast<const char*>(address->data()), address->size()));
    set("RONDEL_SECRET_FILE", secret_path(folder));
  }
  for (const auto& [name, value] : options.environment) set(name, value);
}

}  // namespace

TemporaryFolder::TemporaryFolder()
    : path_((std::filesystem::temp_directory_path() / "rondel-test-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("can not make a folder like " + path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

rondel_error_t last_error(rondel_comm_t comm) {
  rondel_error_t error = RONDEL_ERROR_INIT;
  rondel_last_error(comm, &error);
  return error;
}

void require_ok(RankTest& test, rondel_status_t status, rondel_comm_t comm, std::string_view what,
                Where where) {
  if (status != RONDEL_OK)
    test.stop(fmt::format("{}: {}: {}", what, rondel_status_string(status), last_error(comm).text), where);
}

void expect_status(RankTest& test, rondel_status_t found, rondel_status_t wanted, std::string_view what,
                   Where where) {
  test.expect_equal(std::string(rondel_status_string(found)), std::string(rondel_status_string(wanted)),
                    std::string(what) + " (" + last_error().text + ")", where);
}

std::vector<std::string> run_job_as_threads(Rank ranks, const std::string& transport, const CommBody& body,
                                            double timeout_seconds, End end, const std::string& algorithm) {
  rondel_options_t options = RONDEL_OPTIONS_INIT;
  options.address = "127.0.0.1";
  options.transport = transport.empty() ? nullptr : transport.c_str();
  options.algorithm = algorithm.empty() ? nullptr : algorithm.c_str();
  options.timeout_seconds = timeout_seconds;
  options.start_timeout_seconds = static_cast<double>(kStart.count());
  rondel_unique_id_t id;
  if (rondel_get_unique_id(&options, &id) != RONDEL_OK) return {last_error().text};
  return run_as_threads(ranks, [&id, &options, &body, end](RankTest& test) {
    rondel_comm_t comm = nullptr;
    require_ok(test, rondel_init_unique_id(&id, test.rank(), test.size(), &options, &comm), nullptr, "start");
    test.run([&body, comm](RankTest& self) { body(self, comm); });
    const bool together = end == End::together && test.failures().empty();
    const rondel_status_t ended = together ? rondel_finalize(comm) : rondel_destroy(comm);
    require_ok(test, ended, nullptr, "end");
  });
}

ProcessJob::ProcessJob(Rank ranks, const ProcessJobOptions& options, const Body& body) : ranks_(ranks) {
  write_secret(folder_.path());
  const Rank processes = options.server == Server::launcher ? ranks + 1 : ranks;
  const std::string folder = folder_.path();
  world_ = std::make_unique<ProcessWorld>(
      processes, [ranks, folder, &options, &body](RankTest& test, const Voice& voice) {
        if (test.rank() == ranks) return serve(test, folder);
        set_environment(test, folder, ranks, options);
        rondel_comm_t comm = nullptr;
        if (options.start) require_ok(test, rondel_init(nullptr, &comm), nullptr, "start");
        body(test, voice, comm);
      });
}

std::string ProcessJob::end(std::chrono::seconds limit, Rank excepted) {
  const Deadline deadline = Deadline::in(limit);
  std::vector<Ending> endings;
  for (Rank rank = 0; rank < ranks_; ++rank) endings.push_back(world_->wait(rank, deadline));
  world_.reset();
  return failures_of(endings, excepted);
}

}  // namespace rondel::test
