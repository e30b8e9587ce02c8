// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "lib/host_identity.h"
#include "transports/shm/beacon.h"
#include "transports/shm/endpoint.h"

namespace rondel::shm {
namespace {

constexpr std::uint64_t kExpectedBytesPerSecond = 7'000'000'000;

/// Does once what every link does: makes memory for others, hands it over, and maps what comes.
Status try_all() {
  auto door = Door::open({});
  RONDEL_TRY(door);
  auto memory = SegmentHold::create();
  RONDEL_TRY(memory);
  return SegmentHold::map(memory->fd()).status();
}

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(Config config) : config_(std::move(config)) {}

  std::string_view name() const override { return "shm"; }

  Probe probe() const override {
    Probe probe;
    probe.bytes_per_second = kExpectedBytesPerSecond;
    const auto host = this_host();
    Status usable = host.ok() ? try_all() : host.status();
    if (usable.ok()) usable = light(probe);
    probe.usable = usable.ok();
    if (!usable.ok()) {
      probe.why_not = usable.text();
      return probe;
    }
    // Sockets of another kernel or network namespace can not be seen, and those of another user are refused.
    probe.domain = fmt::format("{}/{}", host->kernel, ::geteuid());
    probe.joins = "processes of one user on one host";
    return probe;
  }

  Status try_beacon(std::span<const std::byte> beacon) const override { return Beacon::reach(beacon); }

  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    return ShmEndpoint::open(options, {.spin = config_.spin, .pull = config_.shm_pull});
  }

 private:
  /// One beacon serves every probe that is held, such as that of a mux beside this transport's own.
  Status light(Probe& probe) const {
    auto beacon = lit_.lock();
    if (beacon == nullptr) {
      auto made = Beacon::light();
      RONDEL_TRY(made);
      beacon = std::move(made).value();
      lit_ = beacon;
    }
    probe.beacon = beacon->address();
    probe.lit = std::move(beacon);
    return {};
  }

  const Config config_;
  mutable std::weak_ptr<const Beacon> lit_;
};

}  // namespace

std::unique_ptr<Transport> make_transport(const Config& config, const Secret&) {
  return std::make_unique<ShmTransport>(config);
}

}  // namespace rondel::shm
