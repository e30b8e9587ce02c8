// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/transport.h"

#include <algorithm>
#include <utility>

#include "lib/port_range.h"
#include "transports/reach.h"
#include "transports/tcp/endpoint.h"
#include "transports/tcp/listener.h"
#include "transports/tcp/socket_options.h"

namespace rondel::tcp {
namespace {

constexpr std::uint64_t kExpectedBytesPerSecond = 3'000'000'000;

class TcpTransport final : public Transport {
 public:
  TcpTransport(Config config, const Secret& secret) : config_(std::move(config)), secret_(secret) {}

  std::string_view name() const override { return "tcp"; }

  Probe probe() const override {
    Probe probe;
    probe.domain = "tcp";
    probe.bytes_per_second = kExpectedBytesPerSecond;
    if (config_.encrypt) {
      probe.why_not =
          "RONDEL_ENCRYPT=1 asks for encrypted links, which this version can not make; unset it or wait";
      return probe;
    }
    auto filter = NetFilter::parse(config_.net);
    const auto interfaces = system_interfaces();
    const Status usable = !filter.ok()       ? filter.status()
                          : !interfaces.ok() ? interfaces.status()
                                             : filter->choose(*interfaces).status();
    probe.usable = usable.ok();
    if (!usable.ok()) probe.why_not = usable.text();
    return probe;
  }

  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    const Probe seen = probe();
    if (!seen.usable) return Status(Code::unavailable, "tcp: " + seen.why_not);
    if (listener_ == nullptr) RONDEL_TRY(start_listener(options.single_host));
    EndpointPolicy policy;
    policy.spin = config_.spin;
    policy.silence = config_.silence_timeout;
    return TcpEndpoint::open(listener_, interfaces_, options, policy);
  }

 private:
  // Ranks of one host meet on loopback, and then nothing else is listened on. Ranks of several hosts that
  // share this one still prefer loopback between themselves.
  Status start_listener(bool single_host) {
    auto found = system_interfaces();
    RONDEL_TRY(found);
    interfaces_ = *std::move(found);
    auto filter = NetFilter::parse(config_.net);
    RONDEL_TRY(filter);
    ListenerOptions options;
    const auto ports = parse_port_range(config_.port_range);
    RONDEL_TRY(ports);
    options.first_port = ports->first;
    options.last_port = ports->last;
    RONDEL_TRY(check_congestion(config_.tcp_congestion));
    const auto loopback = std::find_if(interfaces_.begin(), interfaces_.end(),
                                       [](const Interface& i) { return i.address.is_loopback(); });
    if (loopback != interfaces_.end()) options.addresses.push_back(loopback->address);
    if (!single_host || options.addresses.empty()) {
      auto chosen = filter->choose(interfaces_);
      RONDEL_TRY(chosen);
      for (const Interface& i : *chosen) {
        if (std::find(options.addresses.begin(), options.addresses.end(), i.address) ==
            options.addresses.end())
          options.addresses.push_back(i.address);
      }
    }
    if (options.addresses.empty())
      return Status(Code::unavailable, "this host has no network address, not even loopback",
                    "ip link set lo up");
    options.handshake_limit = config_.handshake_timeout;
    options.policy.congestion = config_.tcp_congestion;
    options.policy.silence = config_.silence_timeout;
    options.policy.user_timeout = config_.timeout;
    auto started = Listener::start(std::move(options), secret_);
    RONDEL_TRY(started);
    listener_ = *std::move(started);
    return {};
  }

  const Config config_;
  const Secret secret_;
  std::vector<Interface> interfaces_;
  std::shared_ptr<Listener> listener_;
};

}  // namespace

std::unique_ptr<Transport> make_transport(const Config& config, const Secret& secret) {
  return std::make_unique<TcpTransport>(config, secret);
}

}  // namespace rondel::tcp
