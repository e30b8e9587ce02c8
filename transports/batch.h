// SPDX-License-Identifier: Apache-2.0
// What every backend checks before it posts a batch, so that all refuse the same mistakes with the same
// words. Pure, any thread. What depends on a backend's state (is the peer connected, is there room) is
// checked by the backend.
#pragma once

#include <span>

#include "lib/status.h"
#include "transports/endpoint.h"
#include "transports/work.h"

namespace rondel {

/// invalid_argument or unsupported, naming the work by its index, when a work breaks a rule of the contract:
/// a slice without region or outside it, too many slices, memory of the wrong kind, a recv_reduce that is not
/// made of whole elements, an operator that its type does not have, an `other` of another length, no
/// completion.
Status validate(std::span<const Work> batch, const Capabilities& capabilities);

}  // namespace rondel
