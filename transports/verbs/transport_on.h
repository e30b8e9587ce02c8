// SPDX-License-Identifier: Apache-2.0
// The verbs transport on a given table of functions, or on the reason why there is none: for tests. One
// driver thread.
#pragma once

#include <memory>

#include "lib/auth.h"
#include "lib/config.h"
#include "lib/status.h"
#include "transports/transport.h"
#include "transports/verbs/library.h"

namespace rondel::verbs {

std::unique_ptr<Transport> make_transport_on(const Result<VerbsLibrary>& library, const Config& config,
                                             const Secret& secret);

}  // namespace rondel::verbs
