// SPDX-License-Identifier: Apache-2.0
#include "lib/one_sided_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rondel {
namespace {

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0U, 0) == 0; }

}  // namespace

// The kernel remembers it for the process; to say so again changes nothing.
bool OneSidedFence::join() { return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED); }

bool OneSidedFence::heavy() { return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

}  // namespace rondel
