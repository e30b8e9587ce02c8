// SPDX-License-Identifier: Apache-2.0
// Shared memory inside a place, another transport between places; each place holds two ranks, side by side or
// every other one.
#include <chrono>
#include <utility>

#include "lib/config.h"
#include "tests/conformance/backend.h"
#include "tests/conformance/mux_outer.h"
#include "transports/mux/transport.h"
#include "transports/shm/transport.h"

namespace rondel::conformance {

namespace {

Config config_of_tests() {
  Config config;
  config.net = "lo";
  return config;
}

/// The mux with its two transports, which settles the places that ranks else agree on.
class PlacedMux final : public Transport {
 public:
  explicit PlacedMux(const Secret& secret)
      : shm_(shm::make_transport(config_of_tests(), secret)),
        outer_(make_outer(config_of_tests(), secret)),
        mux_(mux::make_transport(*shm_, *outer_, config_of_tests().spin)) {}

  std::string_view name() const override { return mux_->name(); }
  Probe probe() const override { return mux_->probe(); }
  Status try_beacon(std::span<const std::byte> beacon) const override { return mux_->try_beacon(beacon); }

  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    EndpointOptions placed = options;
    for (Rank rank = 0; rank < options.size; ++rank) placed.places.push_back(place_of(rank));
    return mux_->open(placed);
  }

 private:
  static std::uint32_t place_of(Rank rank) {
    const auto number = static_cast<std::uint32_t>(rank);
    return RONDEL_TEST_SIDE_BY_SIDE != 0 ? number / 2 * 2 : number / 4 * 4 + number % 2;
  }

  const std::unique_ptr<Transport> shm_;
  const std::unique_ptr<Transport> outer_;
  const std::unique_ptr<Transport> mux_;
};

class MuxBackend final : public Backend {
 public:
  std::unique_ptr<Transport> transport_for(Rank) override { return std::make_unique<PlacedMux>(secret_); }
  bool connects_processes() const override { return outer_connects_processes(); }

 private:
  const Secret secret_ = fresh_secret();
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<MuxBackend>(); }

}  // namespace rondel::conformance
