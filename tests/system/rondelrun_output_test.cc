// SPDX-License-Identifier: Apache-2.0
// What becomes of the ranks' output: whole lines, tagged once, in order, all of them.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/sanitizers.h"
#include "tests/system/rondelrun_process.h"
#include "tests/system/rondelrun_support.h"

using Catch::Matchers::Contains;
using rondel::test::file_text;
using rondel::test::kHelper;
using rondel::test::kHelperWord;
using rondel::test::RunningLauncher;
using rondel::test::TemporaryFolder;

namespace {

/// Checks that `lines` are, for each rank in its order, exactly "PREFIXline I of rank R".
void check_numbered(const std::vector<std::string>& lines, int ranks, int count) {
  std::vector<int> next(static_cast<std::size_t>(ranks), 0);
  for (const std::string& line : lines) {
    int tag = -1, number = -1, rank = -1, used = 0;
    const int fields =
        std::sscanf(line.c_str(), "[%d]<stdout>: line %d of rank %d%n", &tag, &number, &rank, &used);
    INFO(line);
    REQUIRE(fields == 3);
    REQUIRE(static_cast<std::size_t>(used) == line.size());
    REQUIRE(tag == rank);
    REQUIRE((rank >= 0 && rank < ranks));
    REQUIRE(number == next[static_cast<std::size_t>(rank)]++);
  }
  for (const int each : next) CHECK(each == count);
}

}  // namespace

TEST_CASE("8 ranks with 10,000 lines each in odd pieces: each line whole, tagged once, in order") {
  RunningLauncher launcher({.arguments = {"-np", "8", kHelper, "lines", "10000"}});
  CHECK(launcher.wait() == 0);
  check_numbered(launcher.output_lines(), 8, 10'000);
  CHECK(launcher.output().back() == '\n');
}

TEST_CASE("standard output and error in one pipe do not cut each other's lines") {
  RunningLauncher launcher(
      {.arguments = {"-np", "4", "sh", "-c",
                     kHelperWord + " lines 3000 >&2 & " + kHelperWord + " lines 3000; wait"},
       .one_pipe = true});
  CHECK(launcher.wait() == 0);
  std::vector<std::string> out, err;
  for (std::string line : launcher.output_lines()) {
    const auto at = line.find("<stderr>");
    if (at == std::string::npos) {
      out.push_back(line);
    } else {
      err.push_back(line.replace(at, 8, "<stdout>"));
    }
  }
  check_numbered(out, 4, 3000);
  check_numbered(err, 4, 3000);
}

TEST_CASE("the last bytes of a rank that crashes arrive") {
  constexpr std::size_t kBytes = 1'000'000;
  const int run = GENERATE(range(0, 5));  // whether the last of it goes out in one write is up to chance
  CAPTURE(run);
  RunningLauncher launcher({.arguments = {"-np", "2", kHelper, "burst", std::to_string(kBytes)}});
  CHECK(launcher.wait() == 128 + SIGSEGV);
  const std::string line(kBytes - 1, 'z');
  // The second rank may have been stopped by the failure of the first before it had written all.
  const bool out_whole = launcher.output().find("<stdout>: " + line + "\n") != std::string::npos;
  const bool err_whole = launcher.error().find("<stderr>: " + line + "\n") != std::string::npos;
  CHECK(out_whole);
  CHECK(err_whole);
}

TEST_CASE("progress bars and a missing last newline") {
  RunningLauncher launcher({.arguments = {"-np", "1", kHelper, "write", R"(10%\r20%\rdone\r\nlast)"}});
  CHECK(launcher.wait() == 0);
  CHECK(launcher.output() == "[0]<stdout>: 10%\n[0]<stdout>: 20%\n[0]<stdout>: done\n[0]<stdout>: last\n");
}

TEST_CASE("without tags one rank's bytes pass as they are") {
  RunningLauncher launcher(
      {.arguments = {"-np", "1", "--no-tag-output", kHelper, "write", R"(10%\r20%\r\nlast)"}});
  CHECK(launcher.wait() == 0);
  CHECK(launcher.output() == "10%\r20%\r\nlast");
}

TEST_CASE("lines can carry the time of their arrival") {
  RunningLauncher launcher({.arguments = {"-np", "1", "--timestamp-output", kHelper, "write", R"(a\n)"}});
  CHECK(launcher.wait() == 0);
  const std::regex expected(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} \[0\]<stdout>: a\n)");
  CHECK(std::regex_match(launcher.output(), expected));
}

TEST_CASE("each rank's output goes to files as well, byte for byte") {
  const TemporaryFolder folder;
  const std::string logs = folder.path() + "/deep/logs";
  RunningLauncher launcher({.arguments = {"-np", "2", "--output-filename", logs, "sh", "-c",
                                          R"(printf "out $RANK\r\nend"; printf "err $RANK" >&2)"}});
  CHECK(launcher.wait() == 0);
  for (const int rank : {0, 1}) {
    CHECK(file_text(fmt::format("{}/rank.{}/stdout", logs, rank)) == fmt::format("out {}\r\nend", rank));
    CHECK(file_text(fmt::format("{}/rank.{}/stderr", logs, rank)) == fmt::format("err {}", rank));
    CHECK_THAT(launcher.output(), Contains(fmt::format("[{}]<stdout>: out {}\n", rank, rank)));
  }
}

TEST_CASE("a pattern names one file for both streams of a rank") {
  const TemporaryFolder folder;
  RunningLauncher launcher({.arguments = {"-np", "11", "--output-filename", folder.path() + "/%R/of-%r", "sh",
                                          "-c", "echo out $RANK; echo err $RANK >&2"}});
  CHECK(launcher.wait() == 0);
  for (const char* rank : {"03", "10"}) {
    const std::string text = file_text(fmt::format("{}/{}/of-{}", folder.path(), rank, std::stoi(rank)));
    CHECK_THAT(text, Contains(fmt::format("out {}\n", std::stoi(rank))) &&
                         Contains(fmt::format("err {}\n", std::stoi(rank))));
  }
  RunningLauncher both({.arguments = {"-np", "1", "--output-filename", folder.path() + "/whole-%r", "sh",
                                      "-c", "printf AAA; sleep 0.3; echo err >&2; sleep 0.3; printf BBB"}});
  CHECK(both.wait() == 0);
  CHECK(file_text(folder.path() + "/whole-0") == "err\nAAABBB\n");  // whole lines
  REQUIRE(std::system(("mkdir -p '" + folder.path() + "/rank.0' && ln -s /dev/full '" + folder.path() +
                       "/rank.0/stdout'")
                          .c_str()) == 0);
  RunningLauncher full({.arguments = {"-np", "1", "--output-filename", folder.path(), "echo", "lost"}});
  CHECK(full.wait() == 1);
  CHECK_THAT(full.error(), Contains("the file is incomplete"));
  RunningLauncher wrong({.arguments = {"-np", "2", "--output-filename", "%q", "true"}});
  CHECK(wrong.wait() == 2);
}

TEST_CASE("a job that is stopped does not wait for ever for somebody who does not read its output") {
  RunningLauncher asked({.arguments = {"-np", "2", "--kill-grace", "0.2", "yes"}});
  REQUIRE(asked.wait_until_idle());
  asked.signal(SIGTERM);
  CHECK(asked.wait_for_processes(0));
  CHECK(asked.wait() == 143);
  RunningLauncher late({.arguments = {"-np", "2", "--kill-grace", "0.2", "--timeout", "0.5", "yes"}});
  CHECK(late.wait_for_processes(0));
  CHECK(late.wait() == 124);
}

TEST_CASE("when nobody reads the output any more the job stops") {
  RunningLauncher launcher({.arguments = {"-np", "3", kHelper, "endless"}});
  REQUIRE(launcher.wait_for_output("and so on", 100));
  launcher.close_output();
  CHECK(launcher.wait() == 141);
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("a reader that does not read costs no memory and can be ended") {
  RunningLauncher launcher({.arguments = {"-np", "2", kHelper, "endless"}});
  // Nothing is read here: once the pipes are full, everybody waits.
  REQUIRE(launcher.wait_until_idle());
#if UNDER_ADDRESS_SANITIZER
  constexpr std::size_t kMuch = 256 << 20;  // its shadow and quarantine are in there
#else
  constexpr std::size_t kMuch = 64 << 20;
#endif
  CHECK(launcher.resident_bytes() < kMuch);
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 143);
  CHECK(launcher.nothing_is_left());
}

TEST_CASE("a reader that pauses after the ranks have ended gets every line") {
  const int status =
      std::system("[ $('" RONDELRUN_PATH "' -np 2 seq 1 100000 </dev/null | (sleep 1.2; wc -l)) = 200000 ]");
  CHECK(status == 0);
}

TEST_CASE("a terminal shows whole lines too") {
  RunningLauncher launcher({.arguments = {"-np", "2", kHelper, "write", R"(one\ntwo)"}, .terminal = true});
  CHECK(launcher.wait() == 0);
  for (const int rank : {0, 1}) {
    CHECK_THAT(launcher.output(), Contains(fmt::format("[{}]<stdout>: one\r\n", rank)));
    CHECK_THAT(launcher.output(), Contains(fmt::format("[{}]<stdout>: two\r\n", rank)));
  }
}

TEST_CASE("standard output that is closed is told, instead of a job whose output is lost") {
  const int status = std::system("'" RONDELRUN_PATH "' -np 1 echo lost >&- 2>/dev/null");
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 2));
}
