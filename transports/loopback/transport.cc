// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/transport.h"

#include <utility>

#include "transports/loopback/endpoint.h"
#include "transports/loopback/world.h"

namespace rondel::loopback {

namespace {

class LoopbackTransport final : public Transport {
 public:
  explicit LoopbackTransport(std::shared_ptr<World> world) : world_(std::move(world)) {}

  std::string_view name() const override { return "loopback"; }

  Probe probe() const override {
    constexpr std::uint64_t kOneCopyBytesPerSecond = 8'000'000'000;
    return {.usable = true,
            .why_not = {},
            .domain = world_->domain(),
            .joins = "threads of one process",
            .bytes_per_second = kOneCopyBytesPerSecond};
  }

  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    return std::unique_ptr<Endpoint>(std::make_unique<LoopbackEndpoint>(world_, options));
  }

 private:
  const std::shared_ptr<World> world_;
};

}  // namespace

std::unique_ptr<Transport> make_transport(std::shared_ptr<World> world) {
  return std::make_unique<LoopbackTransport>(std::move(world));
}

std::unique_ptr<Transport> make_transport() {
  static const std::shared_ptr<World> process_world = make_world();
  return make_transport(process_world);
}

}  // namespace rondel::loopback
