// SPDX-License-Identifier: Apache-2.0
#include "bench/json_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/environment.h"

namespace rondel::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostNames = 10'000;

Json json_of(const Measurement& m) {
  const Times& t = m.times;
  Json counts = Json::object();
  for (const auto& [name, count] : m.effort.counts) counts[name] = count;
  return {{"median_us", t.median_us},
          {"p95_us", t.p95_us},
          {"mean_us", t.mean_us},
          {"min_us", t.min_us},
          {"max_us", t.max_us},
          {"iterations", t.iterations},
          {"warmup", t.warmup},
          {"algbw_gb_per_s", m.algorithm_gb_per_s},
          {"busbw_gb_per_s", m.bus_gb_per_s},
          {"sent_bytes_by_rank_0", m.effort.sent_bytes},
          {"counts_of_rank_0", counts},
          {"wrong", m.wrong ? Json(*m.wrong) : Json()}};
}

Json json_of(const Environment& e) {
  return {{"host", e.host},
          {"kernel", e.kernel},
          {"machine", e.machine},
          {"processor", e.processor},
          {"cores", e.cores},
          {"load_average", e.load_average},
          {"tcp_congestion_control", e.congestion_control}};
}

Json json_of(const Options& options) {
  const Collective& collective = *options.collective;
  return {{"collective", collective.name},
          {"type", collective.has_data ? Json(name_of(options.type)) : Json()},
          {"op", collective.reduces ? Json(name_of(options.op)) : Json()},
          {"root", collective.has_root ? Json(options.root) : Json()},
          {"checks", options.checks},
          {"memory", options.plain_memory ? "plain" : "arena"},
          {"time_rule", "each iteration counts as long as on its slowest rank"}};
}

/// The library gives JSON; kept as text should it ever not parse.
Json json_of_build(const std::string& text) {
  Json build = Json::parse(text, nullptr, false);
  return build.is_discarded() ? Json(text) : build;
}

}  // namespace

std::string to_json(const Options& options, const JobFacts& job, std::span<const Row> rows) {
  const Environment environment = read_environment();
  Json results = Json::array();
  for (const Row& row : rows)
    results.push_back({{"size_bytes", row.size_bytes},
                       {"count", row.count},
                       {"out_of_place", json_of(row.out_of_place)},
                       {"in_place", row.in_place ? json_of(*row.in_place) : Json()}});
  const Json report = {{"format", "rondel-bench 1"},
                       {"date", environment.date},
                       {"arguments", job.arguments},
                       {"ranks", job.ranks},
                       {"hosts", job.hosts},
                       {"transport", job.transport},
                       {"library_version", job.library_version},
                       {"build", json_of_build(job.build_info)},
                       {"environment", json_of(environment)},
                       {"settings", json_of(options)},
                       {"results", results}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<ReportFile> ReportFile::create(const std::string& path) {
  for (int i = 0; i < kMostNames; ++i) {
    std::string name = i == 0 ? path : fmt::format("{}.{}", path, i);
    UniqueFd file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file) return ReportFile(std::move(name), std::move(file));
    if (errno == EEXIST && i == 0 && !std::filesystem::is_regular_file(path))
      return Status(Code::invalid_argument, fmt::format("{} is there already, and is no file", path),
                    "give -J a file that can be made");
    if (errno != EEXIST)
      return system_failure(Code::io_error, fmt::format("create {}", name), errno,
                            "give -J a file that can be made");
  }
  return Status(Code::io_error, fmt::format("{} and {} more names of that kind exist", path, kMostNames - 1),
                "give -J another name");
}

ReportFile::~ReportFile() {
  if (file_) ::unlink(path_.c_str());
}

Status ReportFile::write_failure() const {
  return system_failure(Code::io_error, fmt::format("write {}", path_), errno,
                        "make room or give -J another place");
}

Status ReportFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file_.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return write_failure();
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(file_.get()) != 0 && errno != EINVAL && errno != EROFS) return write_failure();
  file_.reset();
  return {};
}

}  // namespace rondel::bench
