// SPDX-License-Identifier: Apache-2.0
#include "lib/config.h"
#include "tests/conformance/backend.h"
#include "tests/support/fake_verbs.h"
#include "tests/support/seed.h"
#include "transports/verbs/transport_on.h"

namespace rondel::conformance {

namespace {

class VerbsFakeBackend final : public Backend {
 public:
  std::unique_ptr<Transport> transport_for(Rank) override {
    static test::FakeVerbs fabric;
    if (RONDEL_TEST_QPS > 1) fabric.shuffle_pairs(test::test_seed());
    Config config;
    config.net = "lo";
    config.verbs_qps = RONDEL_TEST_QPS;
    return verbs::make_transport_on(test::FakeVerbs::table(), config, secret_);
  }
  bool connects_processes() const override { return false; }  // the fabric is this process's memory

 private:
  const Secret secret_ = fresh_secret();
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<VerbsFakeBackend>(); }

}  // namespace rondel::conformance
