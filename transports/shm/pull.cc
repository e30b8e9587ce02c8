// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/pull.h"

#include <sys/prctl.h>
#include <sys/uio.h>

#include <cerrno>
#include <fstream>

namespace rondel::shm {

void allow_pulling() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (file >> scope && scope == 1) ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

Status pull(pid_t pid, std::uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const iovec here{into.data(), into.size()};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process
    const iovec there{reinterpret_cast<void*>(address), into.size()};
    const ssize_t got = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (got <= 0) {
      const int error = got == 0 ? EFAULT : errno;
      return system_failure(error == ESRCH || error == EFAULT ? Code::peer_lost : Code::io_error,
                            "reading its memory", error);
    }
    into = into.subspan(static_cast<std::size_t>(got));
    address += static_cast<std::uint64_t>(got);
  }
  return {};
}

bool can_pull(pid_t pid, std::uint64_t address, std::uint64_t value) {
  std::uint64_t found = 0;
  return pid > 0 && pull(pid, address, std::as_writable_bytes(std::span(&found, 1))).ok() && found == value;
}

}  // namespace rondel::shm
