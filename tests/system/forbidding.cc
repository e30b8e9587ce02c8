// SPDX-License-Identifier: Apache-2.0
// Runs a command as a container does that forbids a system call. usage: forbidding CALL EPERM|ENOSYS COMMAND
// [ARG...]
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <string>

#include "tests/support/forbidden_call.h"

int main(int argc, char* argv[]) {
  static const std::map<std::string, long> kCalls{{"memfd_create", SYS_memfd_create},
                                                  {"process_vm_readv", SYS_process_vm_readv}};
  const auto call = argc < 4 ? kCalls.end() : kCalls.find(argv[1]);
  if (call == kCalls.end()) {
    std::fprintf(stderr, "usage: forbidding CALL EPERM|ENOSYS COMMAND [ARG...]\n");
    return 2;
  }
  if (!rondel::test::forbid_call(call->second, argv[2] == std::string("ENOSYS") ? ENOSYS : EPERM)) {
    std::perror("forbidding");
    return 77;
  }
  ::execvp(argv[3], argv + 3);
  std::perror(argv[3]);
  return 127;
}
