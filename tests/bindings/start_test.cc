// SPDX-License-Identifier: Apache-2.0
// The ways into a job, again and again, and what they refuse.
#include <fcntl.h>
#include <netinet/in.h>
#include <rondel.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/config.h"
#include "lib/deadline.h"
#include "lib/unique_fd.h"
#include "tests/bindings/job_world.h"

namespace rondel::test {
namespace {

void expect_sum(RankTest& test, rondel_comm_t comm) {
  std::int32_t value = test.rank() + 1;
  require_ok(test, rondel_allreduce(comm, &value, &value, 1, RONDEL_INT32, RONDEL_SUM), comm, "allreduce");
  test.expect_equal(value, rondel_size(comm) * (rondel_size(comm) + 1) / 2, "sum over all ranks");
}

/// Of this process.
void set_variables(const std::vector<std::pair<const char*, std::string>>& variables) {
  for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
}

/// A file with a secret that only its owner can read.
std::string make_secret_file(const TemporaryFolder& folder) {
  const std::string path = folder.path() + "/secret";
  REQUIRE(std::system(("umask 077; head -c 32 /dev/urandom > " + path).c_str()) == 0);
  return path;
}

std::size_t entries_of(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

/// A store of the caller's, as torch's or Ray's would be bound: a map behind a lock.
class CallerStore {
 public:
  rondel_store_t table() {
    rondel_store_t store = RONDEL_STORE_INIT;
    store.user = this;
    store.set = [](void* user, const char* key, const void* value, std::size_t bytes) {
      return static_cast<CallerStore*>(user)->set(key, value, bytes);
    };
    store.get = [](void* user, const char* key, void* value, std::size_t capacity, std::size_t* bytes,
                   double seconds) {
      return static_cast<CallerStore*>(user)->get(key, value, capacity, bytes, seconds);
    };
    return store;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    values_.clear();
  }
  std::size_t keys() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  rondel_status_t set(const char* key, const void* value, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    values_[key] = std::string(static_cast<const char*>(value), bytes);
    changed_.notify_all();
    return RONDEL_OK;
  }
  rondel_status_t get(const char* key, void* value, std::size_t capacity, std::size_t* bytes,
                      double seconds) {
    std::unique_lock lock(mutex_);
    const bool found = changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                                         [this, key] { return values_.contains(key); });
    if (!found) return RONDEL_TIMED_OUT;
    const std::string& text = values_[key];
    if (text.size() > capacity) return RONDEL_OUT_OF_RESOURCES;
    std::memcpy(value, text.data(), text.size());
    *bytes = text.size();
    return RONDEL_OK;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// A port that was free just now, and whose predecessor is a number that torch could have been given.
std::uint16_t free_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return ntohs(address.sin_port);
}

/// True when nobody else can bind the port on loopback.
bool listens_on(std::uint16_t port) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == EADDRINUSE;
}

rondel_options_t local_options() {
  rondel_options_t options = RONDEL_OPTIONS_INIT;
  options.address = "127.0.0.1";
  options.timeout_seconds = 20;
  options.start_timeout_seconds = 20;
  return options;
}

}  // namespace

TEST_CASE("processes meet at a launcher, or through a directory") {
  const Server server = GENERATE(Server::launcher, Server::rank_0);
  ProcessJob job(3, {.server = server, .environment = {}},
                 [](RankTest& test, const Voice&, rondel_comm_t comm) {
                   expect_sum(test, comm);
                   test.expect_equal(rondel_local_rank(comm), test.rank(), "local rank");
                   test.expect_equal(rondel_local_size(comm), 3, "local size");
                   require_ok(test, rondel_finalize(comm), nullptr, "end");
                 });
  CHECK(job.end(std::chrono::seconds(30)) == "");
}

TEST_CASE("a secret that is given in vain is told of, at the level that RONDEL_LOG asks for") {
  const std::string level = GENERATE("warn", "error");
  TemporaryFolder folder;
  const std::string said = folder.path() + "/said";
  ProcessJob job(1,
                 {.server = Server::rank_0,
                  .start = false,
                  .environment = {{"RONDEL_LOG", level},
                                  {"RONDEL_SIZE", "2"},
                                  {"RONDEL_START_TIMEOUT_S", "0.2"},
                                  {"RONDEL_SECRET_FILE", "/nowhere"}}},
                 [said](RankTest& test, const Voice&, rondel_comm_t) {
                   const UniqueFd file(::open(said.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
                   ::dup2(file.get(), STDERR_FILENO);
                   rondel_comm_t comm = nullptr;
                   expect_status(test, rondel_init(nullptr, &comm), RONDEL_TIMED_OUT, "nobody else comes");
                 });
  CHECK(job.end(std::chrono::seconds(20)) == "");
  std::ifstream file(said);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  CHECK((text.find("the given job secret is not used") != std::string::npos) == (level == "warn"));
}

TEST_CASE("the directory of the start may go while the job runs") {
  ProcessJob job(
      2, {.server = Server::rank_0, .environment = {}}, [](RankTest& test, const Voice&, rondel_comm_t comm) {
        require_ok(test, rondel_barrier(comm), comm, "barrier");
        const std::string directory =
            std::string(environment_variable("RONDEL_STORE")).substr(std::strlen("file://"));
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
        expect_sum(test, comm);
        const auto begin = Deadline::Clock::now();
        require_ok(test, rondel_finalize(comm), nullptr, "end");
        test.expect(Deadline::Clock::now() - begin < std::chrono::seconds(2), "the end does not wait for it");
      });
  CHECK(job.end(std::chrono::seconds(30)) == "");
}

TEST_CASE("start, use and end, fifty times in one process, leaving nothing behind") {
  const Server server = GENERATE(Server::launcher, Server::rank_0);
  ProcessJob job(2, {.server = server, .environment = {}},
                 [](RankTest& test, const Voice&, rondel_comm_t comm) {
                   expect_sum(test, comm);
                   require_ok(test, rondel_finalize(comm), nullptr, "end");
                   const std::size_t descriptors = entries_of("/proc/self/fd");
                   const std::size_t threads = entries_of("/proc/self/task");
                   for (int round = 1; round < 50; ++round) {
                     require_ok(test, rondel_init(nullptr, &comm), nullptr, "start");
                     expect_sum(test, comm);
                     require_ok(test, rondel_finalize(comm), nullptr, "end");
                   }
                   test.expect_equal(entries_of("/proc/self/fd"), descriptors, "descriptors");
                   test.expect_equal(entries_of("/proc/self/task"), threads, "threads");
                 });
  CHECK(job.end(std::chrono::seconds(60)) == "");
}

TEST_CASE("a job that ends well leaves nothing of its secret in the directory where it met") {
  TemporaryFolder folder;
  ProcessWorld world(2, [&folder](RankTest& test, const Voice&) {
    set_variables({{"RONDEL_RANK", std::to_string(test.rank())},
                   {"RONDEL_SIZE", "2"},
                   {"RONDEL_STORE", "file://" + folder.path()},
                   {"RONDEL_START_TIMEOUT_S", "20"}});
    rondel_comm_t comm = nullptr;
    require_ok(test, rondel_init(nullptr, &comm), nullptr, "start");
    expect_sum(test, comm);
    require_ok(test, rondel_finalize(comm), nullptr, "end");
  });
  CHECK(failures_of(world.wait_all(Deadline::in(std::chrono::seconds(40)))) == "");
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    CHECK(std::filesystem::file_size(entry.path()) == 0);  // the lock
}

TEST_CASE("torchrun's environment on one host") {
  TemporaryFolder runtime;
  ProcessWorld world(3, [&runtime](RankTest& test, const Voice&) {
    set_variables({{"RANK", std::to_string(test.rank())},
                   {"WORLD_SIZE", "3"},
                   {"LOCAL_RANK", std::to_string(test.rank())},
                   {"LOCAL_WORLD_SIZE", "3"},
                   {"MASTER_ADDR", "a-name-that-nobody-has.invalid"},
                   {"MASTER_PORT", "29500"},
                   {"XDG_RUNTIME_DIR", runtime.path()},
                   {"RONDEL_START_TIMEOUT_S", "20"}});
    for (int round = 0; round < 2; ++round) {
      rondel_comm_t comm = nullptr;
      require_ok(test, rondel_init(nullptr, &comm), nullptr, "start");
      expect_sum(test, comm);
      require_ok(test, rondel_finalize(comm), nullptr, "end");
    }
  });
  CHECK(failures_of(world.wait_all(Deadline::in(std::chrono::seconds(40)))) == "");
  struct stat facts {};
  REQUIRE(::stat((runtime.path() + "/rondel").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777U) == 0700U);
}

TEST_CASE("several hosts without a secret are refused with the fix") {
  ProcessWorld world(1, [](RankTest& test, const Voice&) {
    set_variables({{"RANK", "1"},
                   {"WORLD_SIZE", "2"},
                   {"LOCAL_RANK", "0"},
                   {"LOCAL_WORLD_SIZE", "1"},
                   {"MASTER_ADDR", "192.0.2.7"},
                   {"MASTER_PORT", "29500"}});
    rondel_comm_t comm = nullptr;
    test.expect_equal(static_cast<int>(rondel_init(nullptr, &comm)), static_cast<int>(RONDEL_REFUSED),
                      "refused");
    test.expect(std::string(last_error().hint).find("RONDEL_SECRET_FILE") != std::string::npos, "the fix");
    ::unsetenv("MASTER_ADDR");
    test.expect_equal(static_cast<int>(rondel_init(nullptr, &comm)),
                      static_cast<int>(RONDEL_INVALID_ARGUMENT), "nowhere to meet");
    test.expect(std::string(last_error().hint).find("rondelrun") != std::string::npos, "the ways to start");
  });
  CHECK(failures_of(world.wait_all(Deadline::in(std::chrono::seconds(20)))) == "");
}

TEST_CASE("torchrun's environment with a secret file uses the port above MASTER_PORT") {
  TemporaryFolder folder;
  const std::string secret = make_secret_file(folder);
  const std::uint16_t port = free_port();
  ProcessWorld world(2, [&secret, port](RankTest& test, const Voice&) {
    set_variables({{"RANK", std::to_string(test.rank())},
                   {"WORLD_SIZE", "2"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", std::to_string(port - 1)},
                   {"RONDEL_SECRET_FILE", secret},
                   {"RONDEL_START_TIMEOUT_S", "20"}});
    for (int round = 0; round < 3; ++round) {
      rondel_comm_t comm = nullptr;
      require_ok(test, rondel_init(nullptr, &comm), nullptr, "start");
      expect_sum(test, comm);
      if (test.rank() == 0) test.expect(listens_on(port), "rank 0 listens on MASTER_PORT + 1");
      require_ok(test, rondel_finalize(comm), nullptr, "end");
    }
  });
  CHECK(failures_of(world.wait_all(Deadline::in(std::chrono::seconds(40)))) == "");
}

TEST_CASE("a port above MASTER_PORT that another program holds is told with its holder and the way out") {
  TemporaryFolder folder;
  const std::string secret = make_secret_file(folder);
  const UniqueFd squatter(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::uint16_t port = free_port();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(squatter.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(squatter.get(), 1) == 0);
  ProcessWorld world(1, [&secret, &squatter, port](RankTest& test, const Voice&) {
    ::close(squatter.get());  // the holder is the parent alone
    set_variables({{"RANK", "0"},
                   {"WORLD_SIZE", "2"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", std::to_string(port - 1)},
                   {"RONDEL_SECRET_FILE", secret},
                   {"RONDEL_START_TIMEOUT_S", "20"}});
    rondel_comm_t comm = nullptr;
    test.expect_equal(static_cast<int>(rondel_init(nullptr, &comm)), static_cast<int>(RONDEL_UNAVAILABLE),
                      "status");
    const std::string text = last_error().text;
    for (const std::string& words :
         {"127.0.0.1:" + std::to_string(port), "process " + std::to_string(::getppid()),
          std::string("set another MASTER_PORT")})
      test.expect(text.find(words) != std::string::npos, words + " in: " + text);
  });
  CHECK(failures_of(world.wait_all(Deadline::in(std::chrono::seconds(10)))) == "");
}

TEST_CASE("threads meet through the caller's store, once and again") {
  CallerStore store;
  for (int round = 0; round < 3; ++round)
    CHECK(all_of(run_as_threads(3, [&store](RankTest& test) {
            const rondel_store_t table = store.table();
            const rondel_options_t options = local_options();
            rondel_comm_t comm = nullptr;
            require_ok(test, rondel_init_store(&table, test.rank(), test.size(), &options, &comm), nullptr,
                       "start");
            expect_sum(test, comm);
            require_ok(test, rondel_finalize(comm), nullptr, "end");
          })) == "");
  CHECK(store.keys() == 3);
}

TEST_CASE("a value left over from an earlier job is not the end") {
  CallerStore store;
  const auto start = [&store](RankTest& test, const char* name) {
    const rondel_store_t table = store.table();
    rondel_options_t options = local_options();
    options.name = name;
    rondel_comm_t comm = nullptr;
    require_ok(test, rondel_init_store(&table, test.rank(), test.size(), &options, &comm), nullptr, "start");
    expect_sum(test, comm);
    require_ok(test, rondel_finalize(comm), nullptr, "end");
  };
  CHECK(all_of(run_as_threads(2, [&start](RankTest& test) { start(test, "stale"); })) == "");
  // What a job of two leaves behind under the key that the next job's rank 1 will read first.
  rondel_store_t table = store.table();
  std::vector<unsigned char> old(128);
  std::size_t bytes = 0;
  REQUIRE(table.get(table.user, "rondel/stale/0", old.data(), old.size(), &bytes, 0) == RONDEL_OK);
  REQUIRE(table.set(table.user, "rondel/stale/1", old.data(), bytes) == RONDEL_OK);
  const auto before = Deadline::Clock::now();
  CHECK(all_of(run_as_threads(2, [&start](RankTest& test) { start(test, "stale"); })) == "");
  CHECK(Deadline::Clock::now() - before < std::chrono::milliseconds(1500));
}

TEST_CASE("a store that fails ends the start with its code") {
  rondel_store_t store = RONDEL_STORE_INIT;
  rondel_comm_t comm = nullptr;
  CHECK(rondel_init_store(&store, 0, 2, nullptr, &comm) == RONDEL_INVALID_ARGUMENT);
  store.set = [](void*, const char*, const void*, std::size_t) { return RONDEL_UNAVAILABLE; };
  store.get = [](void*, const char*, void*, std::size_t, std::size_t*, double) { return RONDEL_REFUSED; };
  CHECK(rondel_init_store(&store, 0, 2, nullptr, &comm) == RONDEL_UNAVAILABLE);
  CHECK_THAT(std::string(last_error().cause), Catch::Contains("set(\"rondel/"));
  CHECK(rondel_init_store(&store, 1, 2, nullptr, &comm) == RONDEL_REFUSED);
  CHECK(rondel_init_store(&store, 2, 2, nullptr, &comm) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_init_store(&store, 0, 0, nullptr, &comm) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_init_store(nullptr, 0, 1, nullptr, &comm) == RONDEL_INVALID_ARGUMENT);
  CHECK(comm == nullptr);
}

TEST_CASE("a rank that never comes is named at the start timeout") {
  rondel_options_t options = local_options();
  options.start_timeout_seconds = 1;
  rondel_unique_id_t id;
  REQUIRE(rondel_get_unique_id(&options, &id) == RONDEL_OK);
  const auto begin = Deadline::Clock::now();
  CHECK(all_of(run_as_threads(2, [&id, &options](RankTest& test) {
          rondel_comm_t comm = nullptr;
          test.expect_equal(static_cast<int>(rondel_init_unique_id(&id, test.rank(), 3, &options, &comm)),
                            static_cast<int>(RONDEL_TIMED_OUT), "status");
          const std::string text = last_error().text;
          test.expect(text.find("rank 2") != std::string::npos || text.find(" 2") != std::string::npos,
                      "names the missing rank: " + text);
        })) == "");
  CHECK(Deadline::Clock::now() - begin < std::chrono::seconds(6));
}

TEST_CASE("a rank that runs out of descriptors in a start is named by all, as what it is") {
  const rlim_t limit = GENERATE(14U, 16U, 18U, 20U);
  ProcessJob job(
      4, {.start = false, .environment = {}}, [limit](RankTest& test, const Voice&, rondel_comm_t) {
        const rlimit few{limit, limit};
        if (test.rank() == 1) test.require(::setrlimit(RLIMIT_NOFILE, &few) == 0, "a limit");
        rondel_comm_t comm = nullptr;
        if (rondel_init(nullptr, &comm) == RONDEL_OK) {  // it was enough, here
          rondel_destroy(comm);
          return;
        }
        const rondel_error_t error = last_error();
        const std::string text = error.text;
        test.expect(
            text.find("Too many open files") == std::string::npos || text.find("rank 1") != std::string::npos,
            text);
        if (test.rank() != 1) test.expect_equal(error.peer, 1, text);
      });
  CHECK(job.end(std::chrono::seconds(40)) == "");
}

TEST_CASE("what is no unique id is refused") {
  rondel_unique_id_t id;
  std::memset(&id, 7, sizeof id);
  rondel_comm_t comm = nullptr;
  CHECK(rondel_init_unique_id(&id, 0, 2, nullptr, &comm) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_init_unique_id(nullptr, 0, 2, nullptr, &comm) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_get_unique_id(nullptr, nullptr) == RONDEL_INVALID_ARGUMENT);
  rondel_options_t options = RONDEL_OPTIONS_INIT;
  options.address = "192.0.2.77";  // nobody's
  CHECK(rondel_get_unique_id(&options, &id) == RONDEL_UNAVAILABLE);
  CHECK_THAT(std::string(last_error().cause), Catch::Contains("192.0.2.77"));
}

TEST_CASE("a job has so many ranks at most, and its start ends in time although none of them comes") {
  rondel_options_t options = local_options();
  options.start_timeout_seconds = 0.5;
  rondel_unique_id_t id;
  REQUIRE(rondel_get_unique_id(&options, &id) == RONDEL_OK);
  rondel_comm_t comm = nullptr;
  CHECK(rondel_init_unique_id(&id, 0, 65537, &options, &comm) == RONDEL_INVALID_ARGUMENT);
  CHECK_THAT(std::string(last_error().cause), Catch::Contains("at most 65536"));
  const auto begin = Deadline::Clock::now();
  CHECK(rondel_init_unique_id(&id, 0, 65536, &options, &comm) == RONDEL_TIMED_OUT);
  CHECK(Deadline::Clock::now() - begin < std::chrono::seconds(12));
}

TEST_CASE("of two processes with one rank the later one is told, and the job goes on") {
  rondel_options_t options = local_options();
  options.start_timeout_seconds = 20;
  rondel_unique_id_t id;
  REQUIRE(rondel_get_unique_id(&options, &id) == RONDEL_OK);
  std::atomic<int> told{0}, summed{0};
  std::vector<std::thread> ranks;
  for (const int rank : {0, 1, 1})
    ranks.emplace_back([&options, &id, &told, &summed, rank] {
      rondel_comm_t comm = nullptr;
      const auto status = rondel_init_unique_id(&id, rank, 2, &options, &comm);
      if (status == RONDEL_MISMATCH)
        told += std::string(last_error().cause).find("as rank 1") != std::string::npos;
      if (status != RONDEL_OK) return;
      float one = 1;
      summed += rondel_allreduce(comm, &one, &one, 1, RONDEL_FLOAT32, RONDEL_SUM) == RONDEL_OK && one == 2;
      rondel_finalize(comm);
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(told == 1);
  CHECK(summed == 2);
}

TEST_CASE("an id of another secret lets nobody in") {
  rondel_options_t options = local_options();
  options.start_timeout_seconds = 3;
  rondel_unique_id_t id;
  REQUIRE(rondel_get_unique_id(&options, &id) == RONDEL_OK);
  id.bytes[10] ^= 1;  // a bit of the secret
  rondel_comm_t comm = nullptr;
  CHECK(rondel_init_unique_id(&id, 1, 2, &options, &comm) == RONDEL_REFUSED);
}

}  // namespace rondel::test
