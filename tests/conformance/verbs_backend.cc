// SPDX-License-Identifier: Apache-2.0
#include "lib/config.h"
#include "tests/conformance/backend.h"
#include "transports/verbs/transport.h"

namespace rondel::conformance {

namespace {

class VerbsBackend final : public Backend {
 public:
  std::unique_ptr<Transport> transport_for(Rank) override {
    Config config;
    config.net = "lo";
    config.verbs_qps = RONDEL_TEST_QPS;
    return verbs::make_transport(config, secret_);
  }
  bool connects_processes() const override { return true; }

 private:
  const Secret secret_ = fresh_secret();
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<VerbsBackend>(); }

}  // namespace rondel::conformance
