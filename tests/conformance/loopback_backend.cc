// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/backend.h"
#include "transports/loopback/transport.h"

namespace rondel::conformance {

namespace {

class LoopbackBackend final : public Backend {
 public:
  std::unique_ptr<Transport> transport_for(Rank) override { return loopback::make_transport(world_); }
  bool connects_processes() const override { return false; }

 private:
  const std::shared_ptr<loopback::World> world_ = loopback::make_world();
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<LoopbackBackend>(); }

}  // namespace rondel::conformance
