// SPDX-License-Identifier: Apache-2.0
// Reading another process's memory where it is (process_vm_readv, "cross memory attach"). Whether the kernel
// allows it between two processes (same user, Yama, containers, seccomp) is found out by doing it. Any
// thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/status.h"

namespace rondel::shm {

/// Lets processes of the same user read this one's memory where Yama asks for such leave (ptrace_scope 1).
void allow_pulling();

/// Fills `into` from `address` in process `pid`. peer_lost when that process is gone.
Status pull(pid_t pid, std::uint64_t address, std::span<std::byte> into);

/// Whether `value` is found at `address` of `pid`. False for pid 0, a process that can not be seen from here.
bool can_pull(pid_t pid, std::uint64_t address, std::uint64_t value);

}  // namespace rondel::shm
