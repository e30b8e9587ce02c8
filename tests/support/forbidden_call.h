// SPDX-License-Identifier: Apache-2.0
// A system call that the kernel refuses to this process from here on, as it does in many containers. For
// processes of their own: there is no way back.
#pragma once

namespace rondel::test {

/// `number`: SYS_...; it fails with EPERM afterwards. False when that could not be done.
bool forbid_call(long number);

}  // namespace rondel::test
