// SPDX-License-Identifier: Apache-2.0
#include "launcher/resources.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "lib/unique_fd.h"

namespace rondel {

Result<std::string> make_job_name() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
    return system_failure(Code::unavailable, "getrandom", errno);
  return fmt::format("job-{:016x}", number);
}

Result<std::uint16_t> find_free_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), generic, length) != 0 ||
      ::getsockname(socket.get(), generic, &length) != 0)
    return system_failure(Code::unavailable, "finding a free port", errno);
  return ntohs(address.sin_port);
}

Result<rlimit> make_room_for_descriptors(std::size_t needed, std::size_t ranks, std::string_view who) {
  rlimit original{};
  if (::getrlimit(RLIMIT_NOFILE, &original) != 0) return system_failure(Code::internal, "getrlimit", errno);
  if (original.rlim_max != RLIM_INFINITY && original.rlim_max < needed)
    return Status(Code::out_of_resources,
                  fmt::format("{} ranks need about {} open files in the {}, the limit is {}", ranks, needed,
                              who, original.rlim_max),
                  fmt::format("raise it with ulimit -n {}", needed));
  rlimit raised = original;
  raised.rlim_cur = original.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return original;
}

std::vector<std::string> inherited_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

}  // namespace rondel
