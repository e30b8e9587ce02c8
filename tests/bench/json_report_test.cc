// SPDX-License-Identifier: Apache-2.0
#include "bench/json_report.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace rondel::bench {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "rondel-bench-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file(std::string_view name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("a device is no place for a report, and gets no file beside it") {
  const auto made = ReportFile::create("/dev/null");
  CHECK(made.code() == Code::invalid_argument);
  CHECK(::access("/dev/null.1", F_OK) != 0);
}

TEST_CASE("an existing file is never overwritten") {
  const Folder folder;
  const std::string path = folder.file("out.json");
  for (const std::string& name : {path, path + ".1", path + ".2"}) {
    auto file = ReportFile::create(path);
    REQUIRE(file.ok());
    CHECK(file->path() == name);
    REQUIRE(file->write(name).ok());
  }
  CHECK(text_of(path) == path);
  CHECK(text_of(path + ".2") == path + ".2");
}

TEST_CASE("a record that was not written leaves no file") {
  const Folder folder;
  const std::string path = folder.file("out.json");
  { REQUIRE(ReportFile::create(path).ok()); }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a place where no file can be made is named with the system's words") {
  const Folder folder;
  const auto file = ReportFile::create(folder.file("missing/out.json"));
  REQUIRE_FALSE(file.ok());
  CHECK_THAT(file.status().text(), Catch::Contains("missing/out.json: No such file"));
}

TEST_CASE("the record holds arguments, environment and every number") {
  Options options;
  options.collective = *find_collective("broadcast");
  Row row;
  row.size_bytes = 64;
  row.count = 16;
  row.out_of_place = {{1.5, 2.5, 1.75, 1, 3, 100, 10}, {64, {{"doorbells", 1.5}}}, 0.25, 0.125, 7};
  JobFacts job;
  job.ranks = 2;
  job.hosts = {"a", "a"};
  job.transport = "tcp";
  job.arguments = {"rondel-bench", "broadcast", "\xff not UTF-8"};
  job.build_info = R"({"protocol": 3})";
  const auto report = nlohmann::json::parse(to_json(options, job, std::array{row}));
  CHECK(report["ranks"] == 2);
  CHECK(report["arguments"].size() == 3);
  CHECK(report["build"]["protocol"] == 3);
  CHECK(report["settings"]["op"].is_null());
  CHECK(report["settings"]["root"] == 0);
  for (const char* const name : {"kernel", "processor", "cores", "load_average", "tcp_congestion_control"})
    CHECK(report["environment"].contains(name));
  const auto& result = report["results"][0];
  CHECK(result["size_bytes"] == 64);
  CHECK(result["out_of_place"]["p95_us"] == 2.5);
  CHECK(result["out_of_place"]["busbw_gb_per_s"] == 0.125);
  CHECK(result["out_of_place"]["sent_bytes_by_rank_0"] == 64);
  CHECK(result["out_of_place"]["counts_of_rank_0"]["doorbells"] == 1.5);
  CHECK(result["out_of_place"]["wrong"] == 7);
  CHECK(result["in_place"].is_null());
}

}  // namespace
}  // namespace rondel::bench
