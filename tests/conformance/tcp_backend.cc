// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lib/check.h"
#include "lib/config.h"
#include "tests/conformance/backend.h"
#include "transports/registry.h"

namespace rondel::conformance {

namespace {

class TcpBackend final : public Backend {
 public:
  std::unique_ptr<Transport> transport_for(Rank) override {
    Config config;
    config.net = "lo";
    auto transports = make_transports(config, secret_);
    const auto tcp = std::find_if(transports.begin(), transports.end(),
                                  [](const auto& transport) { return transport->name() == "tcp"; });
    check(tcp != transports.end(), "this build has the tcp transport");
    return std::move(*tcp);
  }
  bool connects_processes() const override { return true; }

 private:
  const Secret secret_ = fresh_secret();
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<TcpBackend>(); }

}  // namespace rondel::conformance
