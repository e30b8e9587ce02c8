// SPDX-License-Identifier: Apache-2.0
// Pmi: the client side of PMI-1, the key-value space and barrier that MPICH's hydra, Slurm (srun --mpi=pmi2)
// and Flux give their processes over an inherited descriptor: a line of "key=value" words for each request
// and reply (Flux RFC 13). One per process, and a process can begin it once: not for programs that also call
// MPI. Any thread, one request at a time. Says goodbye when the process exits, without which the launcher
// takes the process for dead.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "lib/deadline.h"
#include "lib/status.h"

namespace rondel::c {

/// The words of a reply. Pure.
std::map<std::string, std::string> pmi_words(std::string_view line);

class Pmi {
 public:
  /// Begins, or finds what an earlier call began.
  static Result<Pmi*> begin(int descriptor, Deadline deadline);

  /// Neither key nor value may hold spaces. Others see it after the next barrier.
  Status put(const std::string& key, const std::string& value, Deadline deadline);
  Result<std::string> get(const std::string& key, Deadline deadline);
  /// Waits for all ranks of the job.
  Status barrier(Deadline deadline);

  // For begin() and tests.
  explicit Pmi(int descriptor) : descriptor_(descriptor) {}
  Status greet(Deadline deadline);
  void finalize();

 private:
  Result<std::map<std::string, std::string>> ask(const std::string& request, std::string_view reply,
                                                 Deadline deadline);
  Status send(std::string_view text, Deadline deadline) const;
  Result<std::string> receive_line(Deadline deadline);

  const int descriptor_;
  std::mutex mutex_;   // one request at a time
  std::string space_;  // the name of the job's key-value space
  std::string received_;
  bool usable_ = false;
};

}  // namespace rondel::c
