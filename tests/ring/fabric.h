// SPDX-License-Identifier: Apache-2.0
// Fabric: what joins the ranks of a RingWorld. Each program of these tests links one: fabric_loopback.cc,
// fabric_shm.cc, or fabric_pairs.cc. Main thread only, except transport_of().
#pragma once

#include <memory>

#include "lib/auth.h"
#include "lib/types.h"
#include "transports/transport.h"

namespace rondel::test {

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::unique_ptr<Transport> transport_of(Rank rank, const Secret& secret) = 0;
};

std::unique_ptr<Fabric> make_fabric();

}  // namespace rondel::test
