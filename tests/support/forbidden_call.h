// SPDX-License-Identifier: Apache-2.0
// A system call that the kernel refuses to this process from here on, as it does in many containers. For
// processes of their own: there is no way back.
#pragma once

#include <cerrno>

namespace rondel::test {

/// `number`: SYS_...; it fails with `error` afterwards: EPERM in most containers, ENOSYS in some and on
/// kernels that have no such call. False when that could not be done.
bool forbid_call(long number, int error = EPERM);

}  // namespace rondel::test
