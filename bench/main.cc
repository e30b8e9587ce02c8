// SPDX-License-Identifier: Apache-2.0
// rondel-bench: times Rondel's collectives. Every rank runs this; rank 0 prints the table and writes the
// JSON.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "bench/communicator.h"
#include "bench/json_report.h"
#include "bench/options.h"
#include "bench/runner.h"
#include "bench/table.h"
#include "lib/config.h"

namespace rondel::bench {
namespace {

int fail(const Status& status) {
  fmt::print(stderr, "rondel-bench: {}\n", status.text());
  return status.code() == Code::invalid_argument ? kExitUsage : kExitError;
}

/// Whether this process speaks for the job; known before there is a communicator.
bool speaks_for_the_job() {
  const Result<Config> config = Config::from_environment();
  return !config.ok() || config->rank.value_or(0) == 0;
}

Status check_against_job(const Options& options, Rank ranks) {
  if (options.collective->has_root && options.root >= ranks)
    return Status(Code::invalid_argument,
                  fmt::format("-r {}: the job has ranks 0 to {}", options.root, ranks - 1));
  if (ranks < options.collective->least_ranks)
    return Status(Code::invalid_argument,
                  fmt::format("{} needs {} ranks, the job has {}", options.collective->name,
                              options.collective->least_ranks, ranks),
                  "start it with rondelrun -np 2");
  return {};
}

Status print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) == EOF || std::fflush(stdout) != 0)
    return system_failure(Code::io_error, "writing to standard output", errno);
  return {};
}

JobFacts facts_of(const Communicator& comm, int argc, char** argv) {
  JobFacts job;
  job.ranks = comm.size();
  for (Rank rank = 0; rank < job.ranks; ++rank) job.hosts.emplace_back(rondel_host(comm.handle(), rank));
  job.transport = rondel_transport(comm.handle());
  job.library_version = rondel_version_string();
  const char* const build = rondel_build_info();
  job.build_info = build != nullptr ? build : "";
  job.arguments.assign(argv, argv + argc);
  return job;
}

Result<std::vector<Row>> run_sweep(Communicator& comm, const Options& options) {
  Result<Runner> runner = Runner::create(comm, options);
  RONDEL_TRY(runner);
  const bool prints = comm.rank() == 0;
  if (prints)
    RONDEL_TRY(
        print(table_head(options, comm.size(), rondel_transport(comm.handle()), rondel_version_string())));
  std::vector<Row> rows;
  for (const std::size_t count : Runner::counts(options, comm.size())) {
    Result<Row> row = runner->run(count);
    RONDEL_TRY(row);
    rows.push_back(std::move(row).value());
    if (prints) RONDEL_TRY(print(table_row(options, rows.back())));
  }
  if (prints) RONDEL_TRY(print(table_foot(options, rows)));
  return rows;
}

Status run_job(Communicator& comm, const Options& options, std::optional<ReportFile>& report, int argc,
               char** argv, bool& wrong) {
  Status fits = check_against_job(options, comm.size());
  if (!fits.ok()) {
    RONDEL_TRY(comm.finalize());
    return fits;
  }
  const Result<std::vector<Row>> rows = run_sweep(comm, options);
  RONDEL_TRY(rows);
  wrong = wrong_elements(*rows) > 0;
  if (report) {
    RONDEL_TRY(report->write(to_json(options, facts_of(comm, argc, argv), *rows)));
    RONDEL_TRY(print(fmt::format("# JSON: {}\n", report->path())));
  }
  return comm.finalize();
}

int run(int argc, char** argv) {
  const bool speaks = speaks_for_the_job();
  const auto parsed = parse_options(argc, argv);
  if (const auto* const nothing = std::get_if<NothingToRun>(&parsed)) {
    if (!speaks) return 0;  // what is wrong is wrong on every rank: one says it, and its code is the job's
    if (nothing->code == 0) {
      const Status printed = print(nothing->text);
      return printed.ok() ? 0 : fail(printed);
    }
    std::fputs(nothing->text.c_str(), stderr);
    return nothing->code;
  }
  const Options& options = std::get<Options>(parsed);
  std::optional<ReportFile> report;
  if (speaks && !options.json_file.empty()) {
    Result<ReportFile> created = ReportFile::create(options.json_file);
    if (!created.ok()) return fail(created.status());
    report.emplace(std::move(created).value());
  }
  // Before all ranks have met, what is wrong may be wrong on this one alone.
  Result<std::unique_ptr<Communicator>> joined = Communicator::from_environment();
  if (!joined.ok()) return fail(joined.status());
  bool wrong = false;
  const Status status = run_job(**joined, options, report, argc, argv, wrong);
  if (status.code() == Code::invalid_argument && !speaks) return 0;
  if (!status.ok()) return fail(status);
  return wrong ? kExitWrongData : 0;
}

}  // namespace
}  // namespace rondel::bench

int main(int argc, char** argv) {
  try {
    return rondel::bench::run(argc, argv);
  } catch (const std::exception& error) {  // of the libraries below us: no memory, as a rule
    std::fprintf(stderr, "rondel-bench: %s\n", error.what());
    return rondel::bench::kExitError;
  }
}
