// SPDX-License-Identifier: Apache-2.0
// The Store of a TcpServer, over one authenticated connection. Retries connecting with back-off until its
// deadline. One thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "lib/store/socket.h"
#include "lib/store/store.h"

namespace rondel {

/// `address`: "host:port" or "[v6]:port". timed_out or refused say what the last try met. A server whose host
/// says nothing for `silence` (RONDEL_SILENCE_TIMEOUT_S) is lost.
Result<std::unique_ptr<Store>> connect_tcp_store(const std::string& address, const Secret& secret,
                                                 Deadline deadline,
                                                 std::chrono::milliseconds silence = store::kUsualSilence);

}  // namespace rondel
