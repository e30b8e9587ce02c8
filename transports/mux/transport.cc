// SPDX-License-Identifier: Apache-2.0
#include "transports/mux/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transports/mux/endpoint.h"

namespace rondel::mux {
namespace {

bool has_company(const EndpointOptions& options) {
  const auto own = static_cast<std::size_t>(options.rank);
  return own < options.places.size() && std::ranges::count(options.places, options.places[own]) > 1;
}

class MuxTransport final : public Transport {
 public:
  MuxTransport(Transport& inner, Transport& outer, std::chrono::nanoseconds spin)
      : inner_(inner), outer_(outer), spin_(spin), name_(fmt::format("{}+{}", inner.name(), outer.name())) {}

  std::string_view name() const override { return name_; }

  /// As usable as the outer one: a rank that can not use the inner one is alone in its place.
  Probe probe() const override {
    Probe probe = outer_.probe();
    Probe inside = inner_.probe();
    probe.inner_domain = inside.usable ? inside.domain : std::string();
    probe.beacon = std::move(inside.beacon);
    probe.lit = std::move(inside.lit);
    return probe;
  }

  Status try_beacon(std::span<const std::byte> beacon) const override { return inner_.try_beacon(beacon); }

  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    auto outer = outer_.open(options);
    RONDEL_TRY(outer);
    std::unique_ptr<Endpoint> inner;
    if (has_company(options)) {
      auto opened = inner_.open(options);
      RONDEL_TRY(opened);
      inner = std::move(opened).value();
    }
    return MuxEndpoint::create(options, spin_, std::move(inner), std::move(outer).value());
  }

 private:
  Transport& inner_;
  Transport& outer_;
  const std::chrono::nanoseconds spin_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Transport> make_transport(Transport& inner, Transport& outer, std::chrono::nanoseconds spin) {
  return std::make_unique<MuxTransport>(inner, outer, spin);
}

}  // namespace rondel::mux
