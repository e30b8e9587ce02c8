// SPDX-License-Identifier: Apache-2.0
// Jobs of several ranks for the tests of the C interface: as threads that meet by a unique id, or as
// processes that meet through a directory, with rank 0 or a stand-in for the launcher serving the meeting
// point. Main thread only.
#pragma once

#include <rondel.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process_world.h"
#include "tests/support/rank_test.h"
#include "tests/support/thread_world.h"

namespace rondel::test {

/// A folder of the test's own, removed at the end with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The last error of `comm`, or of this thread.
rondel_error_t last_error(rondel_comm_t comm = nullptr);
/// Notes the code's failure with everything that is known about it; ends the rank's body when `status` is not
/// RONDEL_OK.
void require_ok(RankTest& test, rondel_status_t status, rondel_comm_t comm, std::string_view what,
                Where where = Where::current());

/// Checks a status; the text of a difference holds this thread's last error.
void expect_status(RankTest& test, rondel_status_t found, rondel_status_t wanted, std::string_view what,
                   Where where = Where::current());

using CommBody = std::function<void(RankTest&, rondel_comm_t)>;

enum class End { together, alone };  // rondel_finalize, rondel_destroy

/// Runs `body` on each of `ranks` threads with a communicator of all of them, then ends it. Returns all
/// failures. An empty `algorithm` leaves the choice to the library.
std::vector<std::string> run_job_as_threads(Rank ranks, const std::string& transport, const CommBody& body,
                                            double timeout_seconds = 20, End end = End::together,
                                            const std::string& algorithm = "");

enum class Server { rank_0, launcher };

struct ProcessJobOptions {
  Server server = Server::launcher;
  std::string timeout_seconds = "20";
  bool start = true;  ///< false: the body gets no communicator and calls rondel_init itself
  std::vector<std::pair<std::string, std::string>> environment;
};

/// Ranks as processes. `body` gets a communicator of all ranks; it must free it. The stand-in for the
/// launcher, when there is one, is process `ranks`, and is ended by end().
class ProcessJob {
 public:
  using Body = std::function<void(RankTest&, const Voice&, rondel_comm_t)>;
  ProcessJob(Rank ranks, const ProcessJobOptions& options, const Body& body);

  ProcessWorld& world() { return *world_; }
  /// Waits for all ranks, then ends the stand-in; the failures of all ranks but `excepted`.
  std::string end(std::chrono::seconds limit, Rank excepted = kNoRank);

 private:
  TemporaryFolder folder_;
  Rank ranks_;
  std::unique_ptr<ProcessWorld> world_;
};

/// Value of rank `rank` at `index`, different for all small ranks and indices.
inline float sample(Rank rank, std::size_t index) {
  return static_cast<float>((rank + 1) * 1000 + static_cast<int>(index % 997));
}

}  // namespace rondel::test
