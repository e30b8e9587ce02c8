// SPDX-License-Identifier: Apache-2.0
// All ranks over loopback.
#include "tests/ring/fabric.h"
#include "transports/loopback/transport.h"

namespace rondel::test {
namespace {

class LoopbackFabric final : public Fabric {
 public:
  std::unique_ptr<Transport> transport_of(Rank, const Secret&) override {
    return loopback::make_transport(world_);
  }

 private:
  const std::shared_ptr<loopback::World> world_ = loopback::make_world();
};

}  // namespace

std::unique_ptr<Fabric> make_fabric() { return std::make_unique<LoopbackFabric>(); }

}  // namespace rondel::test
