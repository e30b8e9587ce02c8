// SPDX-License-Identifier: Apache-2.0
// A gigabyte of output: all of it arrives, and neither launcher nor agent keeps it. Its rate is printed; what
// is asked of it only tells a slow machine from a launcher that has gone wrong.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include "lib/unique_fd.h"
#include "tests/support/sanitizers.h"

using rondel::UniqueFd;

namespace {

struct Passed {
  std::size_t bytes = 0;
  double seconds = 0;
  int code = -1;
  std::size_t most_resident = 0;  // of the launcher, its agent and the ranks, whichever had most
};

/// Runs rondelrun with these words and reads its standard output without keeping it.
Passed pass(std::vector<std::string> words) {
  words.insert(words.begin(), RONDELRUN_PATH);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  const auto began = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(in.get(), STDOUT_FILENO);
    ::execv(argv.front(), argv.data());
    ::_exit(126);
  }
  in.reset();
  Passed passed;
  std::vector<char> piece(1 << 20);
  for (ssize_t got = 1; got != 0;) {
    got = ::read(out.get(), piece.data(), piece.size());
    if (got < 0) REQUIRE(errno == EINTR);
    passed.bytes += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  int status = -1;
  rusage used{};
  REQUIRE(::wait4(child, &status, 0, &used) == child);
  passed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  passed.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  passed.most_resident = static_cast<std::size_t>(used.ru_maxrss) * 1024;
  return passed;
}

void check(const Passed& passed, std::size_t bytes, const char* what) {
  const double rate = static_cast<double>(passed.bytes) / passed.seconds / 1e6;
  fmt::print("{}: {:.0f} MB/s, most memory {:.1f} MiB\n", what, rate,
             static_cast<double>(passed.most_resident) / 1048576.0);
  CHECK(passed.code == 0);
  CHECK(passed.bytes == bytes);
#if !UNDER_ADDRESS_SANITIZER && !UNDER_THREAD_SANITIZER  // these keep what was freed
  CHECK(passed.most_resident < 48U << 20U);
#endif
  CHECK(rate > 5);
}

}  // namespace

TEST_CASE("a gigabyte of bytes passes in bounded memory", "[.rate]") {
  check(pass({"-np", "1", "--no-tag-output", "head", "-c", "1000000000", "/dev/zero"}), 1'000'000'000,
        "bytes");
}

TEST_CASE("a gigabyte of lines passes in bounded memory", "[.rate]") {
  constexpr std::size_t kLines = 10'000'000, kLineBytes = 100, kTagBytes = 13;  // "[0]<stdout>: "
  const std::string line(kLineBytes - 1, 'x');
  check(pass({"-np", "1", "sh", "-c", "yes " + line + " | head -n " + std::to_string(kLines)}),
        kLines * (kLineBytes + kTagBytes), "tagged lines");
}
