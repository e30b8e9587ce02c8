// SPDX-License-Identifier: Apache-2.0
// What every backend checks before it posts a batch, so that all refuse the same mistakes with the same
// words. Pure, any thread. What depends on a backend's state (is the peer connected, is there room) is
// checked by the backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

/// Whether `work`, one of `batch`, has room behind those of its batch that come before. `room`: how many more
/// works of its peer and direction the backend takes; none where that peer is not connected.
Status check_room(std::span<const Work> batch, const Work& work, std::optional<std::size_t> room,
                  std::uint32_t max_in_flight);

}  // namespace rondel
