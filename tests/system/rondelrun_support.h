// SPDX-License-Identifier: Apache-2.0
// Small things that the system tests of rondelrun share: the helper's path, a folder of the test's own, a
// fifo that releases a rank. One thread.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "lib/unique_fd.h"

namespace rondel::test {

/// The program that plays a rank.
extern const std::string kHelper;
/// The same as one word of a shell's: its path may hold spaces.
extern const std::string kHelperWord;

/// All of a file; empty when it can not be read.
std::string file_text(const std::string& path);

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rondelrun-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Holds a rank until release().
class Gate {
 public:
  Gate() : path_(folder_.path() + "/gate") {
    REQUIRE(::mkfifo(path_.c_str(), 0600) == 0);
    fifo_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(fifo_);
  }
  const std::string& path() const { return path_; }
  void release() const { REQUIRE(::write(fifo_.get(), "x", 1) == 1); }

 private:
  TemporaryFolder folder_;
  std::string path_;
  UniqueFd fifo_;
};

}  // namespace rondel::test
