// SPDX-License-Identifier: Apache-2.0
// All ranks through one device of a fake libibverbs.
#include "tests/ring/fabric.h"
#include "tests/support/fake_verbs.h"
#include "transports/verbs/transport_on.h"

namespace rondel::test {
namespace {

class VerbsFabric final : public Fabric {
 public:
  std::unique_ptr<Transport> transport_of(Rank, const Secret& secret) override {
    static const FakeVerbs kDevices;
    Config config;
    config.net = "lo";
    return verbs::make_transport_on(FakeVerbs::table(), config, secret);
  }
};

}  // namespace

std::unique_ptr<Fabric> make_fabric() { return std::make_unique<VerbsFabric>(); }

}  // namespace rondel::test
