// SPDX-License-Identifier: Apache-2.0
#include "lib/store/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "lib/unique_fd.h"
#include "tests/lib/store_suite.h"
#include "tests/lib/temporary_directory.h"

namespace rondel {
namespace {

using std::chrono::seconds;

TEST_CASE("what is taken back is one's own value only") {
  const test::TemporaryDirectory directory;
  const auto store = open_file_store(directory.path());
  REQUIRE(store.ok());
  const auto soon = [] { return Deadline::in(std::chrono::seconds(5)); };
  REQUIRE((*store)->set("key", test::bytes_of("mine"), soon()).ok());
  CHECK(take_back(directory.path(), "key", test::bytes_of("other"), soon()).ok());
  CHECK((*store)->get("key", soon()).ok());
  CHECK(take_back(directory.path(), "key", test::bytes_of("mine"), soon()).ok());
  CHECK((*store)->get("key", Deadline::in(std::chrono::milliseconds(0))).code() == Code::timed_out);
  CHECK(take_back(directory.path(), "key", test::bytes_of("mine"), soon()).ok());
  const std::string gone = directory.path() + "/gone";
  CHECK(take_back(gone, "key", test::bytes_of("mine"), soon()).code() == Code::unavailable);
  CHECK_FALSE(std::filesystem::exists(gone));
}

TEST_CASE("the file store is a store") {
  const test::TemporaryDirectory directory;
  test::run_store_suite([&directory] { return *open_file_store(directory.path() + "/store"); });
}

TEST_CASE("a file store's directory is made for its owner alone") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/new";
  REQUIRE(open_file_store(path).ok());
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777U) == 0700U);
}

TEST_CASE("a directory that others can write is refused with the command to run") {
  const test::TemporaryDirectory directory;
  for (const unsigned mode : {0777U, 0770U, 0702U, 01777U}) {
    REQUIRE(::chmod(directory.path().c_str(), mode) == 0);
    const auto store = open_file_store(directory.path());
    CHECK(store.code() == Code::refused);
    CHECK(store.status().text().find("chmod 700 " + directory.path()) != std::string::npos);
  }
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  CHECK(open_file_store(directory.path()).ok());
}

TEST_CASE("a path that is no directory, or in none, is an error in words") {
  const test::TemporaryDirectory directory;
  CHECK(open_file_store("/dev/null").code() == Code::unavailable);
  CHECK(open_file_store(directory.path() + "/no/such").code() == Code::unavailable);
}

TEST_CASE("adding is one step for all processes") {
  const test::TemporaryDirectory directory;
  constexpr int kProcesses = 4;
  constexpr int kAdds = 50;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto store = open_file_store(directory.path());
      bool good = store.ok();
      for (int i = 0; good && i < kAdds; ++i) good = (*store)->add("counter", 1).ok();
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(*(*open_file_store(directory.path()))->add("counter", 0) == kProcesses * kAdds);
}

TEST_CASE("a directory deleted while a rank waits fails the wait at once") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/store";
  const auto store = *open_file_store(path);
  REQUIRE(store->set("one", {}).ok());
  const auto before = Deadline::Clock::now();
  std::thread remover([&path] { std::filesystem::remove_all(path); });
  const auto value = store->get("two", Deadline::in(seconds(30)));
  remover.join();
  CHECK(value.code() == Code::unavailable);
  CHECK(value.status().text().find(path) != std::string::npos);
  const std::vector<std::string> keys{"one", "two"};
  CHECK(store->wait(keys, Deadline::in(seconds(30))).code() == Code::unavailable);
  CHECK(store->set("one", {}).code() == Code::unavailable);
  CHECK(store->add("counter", 1).code() == Code::unavailable);

  const auto other = *open_file_store(path);  // made anew: not the directory that `store` opened
  REQUIRE(other->set("two", {}).ok());
  CHECK(store->get("two", Deadline::in(seconds(30))).code() == Code::unavailable);
  CHECK(Deadline::Clock::now() - before < seconds(5));
}

TEST_CASE("what is no regular file in a store is refused, not waited for") {
  const test::TemporaryDirectory directory;
  const auto store = open_file_store(directory.path());
  REQUIRE(store.ok());
  REQUIRE((*store)->set("k", {}).ok());
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (!entry.path().filename().string().starts_with("key-")) continue;
    const std::string path = entry.path();
    REQUIRE(::unlink(path.c_str()) == 0);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  }
  const auto value = (*store)->get("k", Deadline::in(seconds(5)));
  CHECK(value.code() == Code::refused);
  CHECK(value.status().text().find("no regular file") != std::string::npos);
}

TEST_CASE("values that nobody has written for long are forgotten, and only these") {
  const test::TemporaryDirectory directory;
  const auto store = open_file_store(directory.path());
  REQUIRE(store.ok());
  for (const char* key : {"old", "new"}) REQUIRE((*store)->set(key, {}).ok());
  std::ofstream(directory.path() + "/somebody's file") << "x";
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(30);
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    if (entry.path().string().find("key-new") == std::string::npos)
      std::filesystem::last_write_time(entry, long_ago);
  forget_old_values(directory.path(), std::chrono::hours(31));
  CHECK((*store)->get("old", Deadline::in(seconds(0))).ok());
  forget_old_values(directory.path(), std::chrono::hours(29));
  CHECK_FALSE((*store)->get("old", Deadline::in(seconds(0))).ok());
  CHECK((*store)->get("new", Deadline::in(seconds(0))).ok());
  CHECK(std::filesystem::exists(directory.path() + "/somebody's file"));
}

TEST_CASE("a lock that another process holds is waited for as long as the caller said, and named") {
  const test::TemporaryDirectory directory;
  const auto store = open_file_store(directory.path());
  REQUIRE(store.ok());
  REQUIRE((*store)->set("k", {}).ok());
  const UniqueFd lock(::open((directory.path() + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(lock.get(), LOCK_EX) == 0);
  const Status late = (*store)->set("k", {}, Deadline::in(std::chrono::milliseconds(50)));
  CHECK(late.code() == Code::timed_out);
  CHECK(late.text().find("fuser -v " + directory.path() + "/lock") != std::string::npos);
}

TEST_CASE("a writer that died in the middle of a value leaves the store usable") {
  const test::TemporaryDirectory directory;
  const auto store = *open_file_store(directory.path());
  REQUIRE(store->set("key", test::bytes_of("old")).ok());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // as far as a set() comes before its rename
    const auto half = directory.path() + "/being-written";
    if (FILE* file = std::fopen(half.c_str(), "w")) std::fputs("half a val", file);
    ::_exit(0);
  }
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(test::text_of(*store->get("key", Deadline::in(seconds(5)))) == "old");
  REQUIRE(store->set("key", test::bytes_of("new")).ok());
  CHECK(test::text_of(*store->get("key", Deadline::in(seconds(5)))) == "new");
}

}  // namespace
}  // namespace rondel
