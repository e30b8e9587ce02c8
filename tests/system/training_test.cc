// SPDX-License-Identifier: Apache-2.0
// The training examples as a user runs them: ranks end bit-identical, and four of them end where one does.
#include <fmt/format.h>
#include <stdio.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace rondel::test {
namespace {

/// A folder of the test's own, removed at the end.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "rondel-train-XXXXXX").string()) {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Outcome {
  int code = -1;
  std::string output;  // of both streams

  /// The checksum of each rank, as rank 0 printed them.
  std::vector<std::string> checksums() const {
    static const std::regex kLine(R"(rank (\d+) parameters ([0-9a-f]{16}))");
    std::vector<std::string> found;
    for (std::sregex_iterator line(output.begin(), output.end(), kLine), end; line != end; ++line)
      found.push_back((*line)[2]);
    return found;
  }
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> piece{};
  while (const std::size_t count = ::fread(piece.data(), 1, piece.size(), pipe))
    outcome.output.append(piece.data(), count);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

std::string train(const char* program, const std::string& options = {}) {
  return fmt::format("'{}' --data '{}' {}", program, DIGITS, options);  // paths may hold spaces
}

std::string train_on(int ranks, const char* program, const std::string& options = {}) {
  return fmt::format("'{}' -np {} {}", RONDELRUN, ranks, train(program, options));
}

std::vector<float> parameters_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<float> parameters(bytes.size() / sizeof(float));
  std::copy_n(bytes.data(), parameters.size() * sizeof(float), reinterpret_cast<char*>(parameters.data()));
  return parameters;
}

}  // namespace

TEST_CASE("four ranks with a quarter of the batch end with the parameters of one rank") {
  const char* program = GENERATE(TRAIN_DIGITS, TRAIN_DIGITS_C);
  Folder folder;
  const Outcome one = run(train(program, "--save " + folder.path() + "/one"));
  const Outcome four = run(train_on(4, program, "--save " + folder.path() + "/four"));
  INFO(one.output << four.output);
  REQUIRE(one.code == 0);
  REQUIRE(four.code == 0);
  const auto alone = parameters_in(folder.path() + "/one");
  const auto together = parameters_in(folder.path() + "/four");
  REQUIRE(alone.size() == 4810);
  REQUIRE(together.size() == alone.size());

  // Both compute the same sums of 64 terms for each gradient element, but add them in another order. Each sum
  // is off by at most 64 half-ulps of float32 (64 * 6e-8 = 4e-6 of the sum of magnitudes, which is below 1
  // here), on average by sqrt(64) * 6e-8 = 5e-7. A step multiplies that by learning rate / (1 - momentum) =
  // 1; 460 steps add up like a random walk to sqrt(460) * 5e-7 = 1e-5. The bound is ten times that. A wrong
  // share, a lost rank or a stale gradient moves parameters by more than 1e-2.
  constexpr float kTolerance = 1e-4F;
  float largest = 0;
  for (std::size_t i = 0; i < alone.size(); ++i)
    largest = std::max(largest, std::abs(alone[i] - together[i]));
  UNSCOPED_INFO("largest difference " << fmt::format("{:.3g}", largest));
  CHECK(largest <= kTolerance);
  CHECK(largest > 0);  // else the four did not work apart
}

TEST_CASE("all ranks end bit-identical, and every run gives the same bits") {
  const Outcome first = run(train_on(4, TRAIN_DIGITS));
  const Outcome second = run(train_on(4, TRAIN_DIGITS_C));
  INFO(first.output << second.output);
  REQUIRE(first.code == 0);
  REQUIRE(second.code == 0);
  auto sums = first.checksums();
  CHECK(sums.size() == 4);
  const auto others = second.checksums();
  sums.insert(sums.end(), others.begin(), others.end());
  CHECK(sums.size() == 8);
  CHECK(std::set<std::string>(sums.begin(), sums.end()).size() == 1);
}

TEST_CASE("parts of a batch may differ in size") {
  const Outcome three = run(train_on(3, TRAIN_DIGITS, "--batch 50 --epochs 15"));
  INFO(three.output);
  CHECK(three.code == 0);
  CHECK(three.checksums().size() == 3);
}

TEST_CASE("the example says what it did") {
  const Outcome two = run(train_on(2, TRAIN_DIGITS, "--epochs 10"));
  INFO(two.output);
  CHECK(two.code == 0);
  CHECK_THAT(two.output, Catch::Contains("epoch  10  loss"));
  CHECK_THAT(two.output, Catch::Contains("test accuracy"));
  // 23 steps of 10 epochs; two ranks send and receive the vector once each per step
  CHECK_THAT(two.output, Catch::Contains("230 all-reduces of 19244 bytes"));
  CHECK_THAT(two.output, Catch::Contains("MB/s"));
  CHECK_THAT(two.output, !Catch::Contains("\r"));  // no progress bar without a terminal
}

TEST_CASE("the example fails in words") {
  const char* program = GENERATE(TRAIN_DIGITS, TRAIN_DIGITS_C);
  const Outcome missing = run(fmt::format("'{}' --data no/such/file.csv", program));
  CHECK(missing.code == 1);
  CHECK_THAT(missing.output, Catch::Contains("no/such/file.csv") && Catch::Contains("--data"));
  const Outcome wrong = run(fmt::format("'{}' --batch 0", program));
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.output, Catch::Contains("--batch 0") && Catch::Contains("--help"));
  const Outcome short_run = run(train(program, "--epochs 1 --batch 1437"));
  CHECK(short_run.code == 1);
  CHECK_THAT(short_run.output, Catch::Contains("is below the wanted 95 %"));

  Folder folder;
  std::ofstream(folder.path() + "/bad.csv") << "1,2,3\n";
  const Outcome bad = run(fmt::format("'{}' --data {}/bad.csv", program, folder.path()));
  CHECK(bad.code == 1);
  CHECK_THAT(bad.output, Catch::Contains("bad.csv:1: wanted 64 numbers"));
}

}  // namespace rondel::test
