// SPDX-License-Identifier: Apache-2.0
// The job's secret stays between those who need it: while a job runs, and in all that it leaves behind, no
// argument, environment or log holds a part of it, however it may be written.
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "lib/liveness/member.h"
#include "tests/system/rondelrun_process.h"
#include "tests/system/rondelrun_support.h"

using Catch::Matchers::Contains;
using rondel::Secret;
using rondel::test::file_text;
using rondel::test::Gate;
using rondel::test::RunningLauncher;
using rondel::test::TemporaryFolder;

namespace {

/// Without what stands between the bytes of a dump, and in small letters.
std::string packed(std::string_view text) {
  std::string found;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "0x")
      ++i;
    else if (std::isalnum(static_cast<unsigned char>(text[i])) != 0)
      found += static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
  }
  return found;
}

std::string digits_of(std::string_view bytes, const char* format) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format(fmt::runtime(format), static_cast<unsigned char>(byte));
  return digits;
}

std::string base64_of(const std::string& bytes) {
  std::string text(4 * (bytes.size() / 3 + 1) + 1, '\0');
  const int length =
      ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

/// Looks for stretches of eight bytes of a secret: as they are, in hexadecimal or decimal digits, in base64.
class Traces {
 public:
  explicit Traces(const std::string& secret) {
    for (std::size_t at = 0; at + kStretch <= secret.size(); ++at) {
      std::string stretch = secret.substr(at, kStretch);
      raw_.push_back(stretch);
      digits_.push_back(digits_of(stretch, "{:02x}"));
      digits_.push_back(digits_of(stretch, "{}"));
      std::reverse(stretch.begin(), stretch.end());  // as a number is written
      digits_.push_back(digits_of(stretch, "{:02x}"));
    }
    // What comes before it decides how the bytes of a secret share base64's letters; its ends may share
    // theirs.
    for (const char* before : {"", "x", "xx"}) {
      const std::string text = base64_of(before + secret);
      for (std::size_t at = 4; at + kLetters + 4 <= text.size(); ++at)
        base64_.push_back(text.substr(at, kLetters));
    }
  }

  bool in(const std::string& text) const {
    std::string standard = text;  // base64 for addresses of pages has two letters of its own
    std::replace(standard.begin(), standard.end(), '-', '+');
    std::replace(standard.begin(), standard.end(), '_', '/');
    return any_in(text, raw_) || any_in(packed(text), digits_) || any_in(standard, base64_);
  }

 private:
  static constexpr std::size_t kStretch = 8, kLetters = 12;
  static bool any_in(const std::string& text, const std::vector<std::string>& stretches) {
    return std::any_of(stretches.begin(), stretches.end(), [&text](const std::string& stretch) {
      return text.find(stretch) != std::string::npos;
    });
  }
  std::vector<std::string> raw_, digits_, base64_;
};

std::string bytes_of(const Secret& secret) {
  return {reinterpret_cast<const char*>(secret.bytes().data()), Secret::kBytes};
}

/// Somebody who knows another secret is turned away, which the server logs.
void knock_with_another_secret(const std::string& said_by_launcher) {
  const std::string mark = "store tcp://";
  const auto at = said_by_launcher.find(mark);
  REQUIRE(at != std::string::npos);
  const std::string rest = said_by_launcher.substr(at + mark.size());
  const auto member =
      rondel::liveness::Member::connect(rest.substr(0, rest.find_first_of(" \n")), *Secret::generate(),
                                        rondel::Deadline::in(std::chrono::seconds(20)));
  CHECK(member.code() == rondel::Code::refused);
}

}  // namespace

TEST_CASE("a part of a secret is found in whatever form it is written") {
  const std::string secret = bytes_of(*Secret::generate()), part = secret.substr(11, 8);
  const Traces traces(secret);
  for (const std::string& form :
       {part, digits_of(part, "{:02x}"), digits_of(part, "{:02X}:"), digits_of(part, "0x{:02x}, "),
        digits_of(part, "{}, "), base64_of(secret), base64_of("key=" + secret), base64_of("a key=" + secret)})
    CHECK(traces.in("some words, " + form + " and more of them"));
  CHECK_FALSE(traces.in("some words"));
  CHECK_FALSE(traces.in(digits_of(bytes_of(*Secret::generate()), "{:02x}")));
}

TEST_CASE("no argument, environment, output or log of a job holds a part of its secret") {
  const TemporaryFolder folder;
  const Gate gate;
  RunningLauncher launcher({.arguments = {"-np", "2", "-v", "--output-filename", folder.path() + "/logs",
                                          SECRET_RANK_PATH, folder.path() + "/secret-of-", gate.path()},
                            .environment = {"RONDEL_LOG=trace"}});
  REQUIRE(launcher.wait_for_output("ready", 2));
  const std::string secret = file_text(folder.path() + "/secret-of-1");
  REQUIRE(secret.size() == Secret::kBytes);
  REQUIRE(file_text(folder.path() + "/secret-of-0") == secret);
  const Traces traces(secret);

  const std::vector<pid_t> processes = launcher.processes();
  CHECK(processes.size() == 5);  // launcher, agent, guardian, ranks
  for (const pid_t process : processes)
    for (const char* file : {"cmdline", "environ"}) {
      const std::string text = file_text(fmt::format("/proc/{}/{}", process, file));
      CHECK_FALSE(text.empty());
      CHECK_FALSE(traces.in(text));
    }

  REQUIRE(launcher.wait_for_error("store tcp://"));
  knock_with_another_secret(launcher.error());
  gate.release();
  gate.release();
  CHECK(launcher.wait() == 0);
  CHECK_THAT(launcher.error(), Contains("rondel rank 1 debug: ") && Contains("the job secrets differ") &&
                                   Contains("float32") && Contains("int32"));
  CHECK_FALSE(traces.in(launcher.output()));
  CHECK_FALSE(traces.in(launcher.error()));
  std::size_t logs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path() + "/logs")) {
    CHECK_FALSE(traces.in(entry.path().string()));
    if (!entry.is_regular_file()) continue;
    CHECK_FALSE(traces.in(file_text(entry.path())));
    ++logs;
  }
  CHECK(logs == 4);  // output and errors of each rank
}
