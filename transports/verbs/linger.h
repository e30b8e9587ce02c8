// SPDX-License-Identifier: Apache-2.0
// linger: sends that went eagerly are finished as soon as the device has them; before it is told to forget
// them, they must have arrived. Called once, by an endpoint that ends healthy; driver thread only.
#pragma once

#include "lib/deadline.h"
#include "transports/verbs/completion_queues.h"
#include "transports/verbs/link_table.h"

namespace rondel::verbs {

/// Waits until each peer's device has all that was sent eagerly, or the peer has gone, or the deadline.
void linger(const LinkTable& links, CompletionQueues& queues, Deadline deadline);

}  // namespace rondel::verbs
