// SPDX-License-Identifier: Apache-2.0
// The JSON record of a run: arguments, environment, every number. Its file is opened before the run, so that
// a wrong path costs nothing, never overwrites, and is removed again when it could not be written whole. Rank
// 0 only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/measurement.h"
#include "bench/options.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel::bench {

/// What of the job goes into the record.
struct JobFacts {
  Rank ranks = 1;
  std::vector<std::string> hosts;  // by rank
  std::string transport, library_version, build_info;
  std::vector<std::string> arguments;
};

std::string to_json(const Options& options, const JobFacts& job, std::span<const Row> rows);

class ReportFile {
 public:
  /// `path`, or the first of path.1, path.2, ... that does not exist.
  static Result<ReportFile> create(const std::string& path);
  ReportFile(ReportFile&&) noexcept = default;
  ReportFile& operator=(ReportFile&&) = delete;
  ~ReportFile();  // removes what was not written whole

  const std::string& path() const { return path_; }
  Status write(std::string_view text);

 private:
  ReportFile(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  Status write_failure() const;
  std::string path_;
  UniqueFd file_;  // empty once the record is whole
};

}  // namespace rondel::bench
