// SPDX-License-Identifier: Apache-2.0
// Shared memory between two ranks each, and loopback between those pairs.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "tests/ring/fabric.h"
#include "transports/loopback/transport.h"
#include "transports/mux/transport.h"
#include "transports/shm/transport.h"

namespace rondel::test {
namespace {

/// Shared memory that says that it connects ranks 0 and 1, 2 and 3, ... only.
class InPairs final : public Transport {
 public:
  InPairs(Rank rank, const Secret& secret) : rank_(rank), shm_(shm::make_transport({}, secret)) {}
  std::string_view name() const override { return "pairs"; }
  Probe probe() const override {
    Probe probe = shm_->probe();
    probe.domain += fmt::format("/{}", rank_ / 2);
    return probe;
  }
  Status try_beacon(std::span<const std::byte> beacon) const override { return shm_->try_beacon(beacon); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    return shm_->open(options);
  }

 private:
  const Rank rank_;
  const std::unique_ptr<Transport> shm_;
};

/// A mux with its two transports.
class PairsAndRest final : public Transport {
 public:
  PairsAndRest(Rank rank, const Secret& secret, std::shared_ptr<loopback::World> world)
      : inner_(rank, secret),
        outer_(loopback::make_transport(std::move(world))),
        mux_(mux::make_transport(inner_, *outer_, std::chrono::microseconds(20))) {}
  std::string_view name() const override { return mux_->name(); }
  Probe probe() const override { return mux_->probe(); }
  Status try_beacon(std::span<const std::byte> beacon) const override { return mux_->try_beacon(beacon); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    return mux_->open(options);
  }

 private:
  InPairs inner_;
  const std::unique_ptr<Transport> outer_;
  const std::unique_ptr<Transport> mux_;
};

class PairsFabric final : public Fabric {
 public:
  std::unique_ptr<Transport> transport_of(Rank rank, const Secret& secret) override {
    return std::make_unique<PairsAndRest>(rank, secret, world_);
  }

 private:
  const std::shared_ptr<loopback::World> world_ = loopback::make_world();
};

}  // namespace

std::unique_ptr<Fabric> make_fabric() { return std::make_unique<PairsFabric>(); }

}  // namespace rondel::test
