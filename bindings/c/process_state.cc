// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/process_state.h"

#include <utility>

namespace rondel::c {

ProcessState& ProcessState::instance() {
  static ProcessState* const kInstance = new ProcessState;
  return *kInstance;
}

std::uint64_t ProcessState::next_generation(const std::string& what) {
  const std::lock_guard lock(mutex_);
  return generations_[what]++;
}

Result<Secret> ProcessState::secret_of(const Config& config) {
  if (config.secret_fd) {
    const std::lock_guard lock(mutex_);
    const auto known = secrets_by_descriptor_.find(*config.secret_fd);
    if (known != secrets_by_descriptor_.end()) return known->second;
    auto secret = Secret::from_descriptor(*config.secret_fd);
    if (!secret.ok())
      return std::move(secret).status().with("reading the job's secret from RONDEL_SECRET_FD");
    secrets_by_descriptor_.emplace(*config.secret_fd, *secret);
    return secret;
  }
  if (!config.secret_file.empty()) return Secret::from_file(config.secret_file);
  return Status(Code::refused,
                "the job has no secret: neither RONDEL_SECRET_FD nor RONDEL_SECRET_FILE is set",
                "start with rondelrun, or give every rank a copy of one file: "
                "(umask 077; head -c 32 /dev/urandom > FILE), RONDEL_SECRET_FILE=FILE");
}

void ProcessState::keep(HostedMeetingPoint hosted) {
  const std::lock_guard lock(mutex_);
  waiting_[hosted.point.address] = std::move(hosted.server);
}

std::unique_ptr<TcpServer> ProcessState::take(const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(address);
  if (found == waiting_.end()) return nullptr;
  auto server = std::move(found->second);
  waiting_.erase(found);
  return server;
}

}  // namespace rondel::c
