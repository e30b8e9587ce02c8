// SPDX-License-Identifier: Apache-2.0
#include "lib/config.h"
#include "tests/conformance/backend.h"
#include "transports/shm/transport.h"

namespace rondel::conformance {

namespace {

class ShmBackend final : public Backend {
 public:
  std::unique_ptr<Transport> transport_for(Rank) override {
    Config config;
    config.shm_pull = RONDEL_TEST_SHM_PULL != 0;
    return shm::make_transport(config, fresh_secret());
  }
  bool connects_processes() const override { return true; }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<ShmBackend>(); }

}  // namespace rondel::conformance
