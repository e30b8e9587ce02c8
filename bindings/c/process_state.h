// SPDX-License-Identifier: Apache-2.0
// What outlives a job inside one process: how often each rank has started, secrets whose descriptor can be
// read only once, and meeting points whose rank 0 has not come yet. Any thread. Never destroyed, so that a
// forked child's exit() does not wait for threads it does not have.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "bindings/c/meeting_point.h"
#include "lib/config.h"

namespace rondel::c {

class ProcessState {
 public:
  static ProcessState& instance();

  /// 0 for the first call with `what`, then 1, 2, ...; equal on all ranks when all start equally often.
  std::uint64_t next_generation(const std::string& what);
  /// The secret of RONDEL_SECRET_FD or RONDEL_SECRET_FILE; refused, with the fix, when there is neither.
  Result<Secret> secret_of(const Config& config);
  void keep(HostedMeetingPoint hosted);
  /// The server at `address` when this process serves it and nobody took it yet; else null.
  std::unique_ptr<TcpServer> take(const std::string& address);

 private:
  ProcessState() = default;

  std::mutex mutex_;
  std::map<std::string, std::uint64_t> generations_;
  std::map<int, Secret> secrets_by_descriptor_;
  std::map<std::string, std::unique_ptr<TcpServer>> waiting_;
};

}  // namespace rondel::c
