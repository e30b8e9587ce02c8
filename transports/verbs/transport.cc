// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "lib/interfaces.h"
#include "transports/verbs/device.h"
#include "transports/verbs/device_choice.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/own_memory.h"
#include "transports/verbs/registration_cache.h"
#include "transports/verbs/survey.h"
#include "transports/verbs/transport_on.h"

namespace rondel::verbs {
namespace {

DeviceWish wish_of(const Config& config) {
  DeviceWish wish{.device = config.verbs_device,
                  .gid_index = {},
                  .marks = {.pkey_index = static_cast<std::uint16_t>(config.verbs_pkey_index),
                            .service_level = static_cast<std::uint8_t>(config.verbs_service_level),
                            .traffic_class = static_cast<std::uint8_t>(config.verbs_traffic_class)}};
  if (config.verbs_gid_index) wish.gid_index = static_cast<std::uint32_t>(*config.verbs_gid_index);
  return wish;
}

class VerbsTransport final : public Transport {
 public:
  VerbsTransport(Result<VerbsLibrary> library, Config config, const Secret& secret)
      : library_(std::move(library)), config_(std::move(config)), secret_(secret) {}

  std::string_view name() const override { return "verbs"; }

  Probe probe() const override {
    Probe probe;
    const auto choice = choose();
    Status usable = !choice.ok() ? choice.status() : meeting_place(false).status();
    if (usable.ok()) usable = try_memory();
    probe.usable = usable.ok();
    if (!usable.ok()) {
      probe.why_not = usable.text();
      return probe;
    }
    probe.joins = "ports of one kind (InfiniBand, RoCE v1 or RoCE v2)";
    probe.domain = fmt::format("verbs/{}", name_of(choice->gid_kind));
    probe.bytes_per_second = choice->bytes_per_second;
    return probe;
  }

  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    auto place = meeting_place(options.single_host);
    RONDEL_TRY(place);
    auto memory = shared_memory();
    RONDEL_TRY(memory);
    return VerbsEndpoint::open(*std::move(memory), *std::move(place), options, secret_, config_.spin,
                               static_cast<std::uint32_t>(config_.verbs_qps));
  }

 private:
  /// What the first link of a rank locks, locked for a moment: limits say less than trying.
  Status try_memory() const {
    const auto memory = shared_memory();
    RONDEL_TRY(memory);
    return OwnMemory::create((*memory)->device(), Link::kLockedBytes).status();
  }

  /// The device, with what is registered on it. Communicators of several threads may ask at once. One that
  /// has failed is not used again: it may be back.
  Result<std::shared_ptr<RegistrationCache>> shared_memory() const {
    const std::scoped_lock lock(mutex_);
    if (memory_ != nullptr) memory_->device()->events().take();
    if (memory_ != nullptr && !memory_->device()->events().end().ok()) memory_ = nullptr;
    if (memory_ == nullptr) {
      const auto choice = choose();
      RONDEL_TRY(choice);
      auto device = Device::open(*library_, *choice);
      RONDEL_TRY(device);
      // What is kept for later must not be missing for a link now.
      const bool keeps_other = config_.verbs_keep_memory && !(*device)->limits().locked_memory;
      memory_ = std::make_shared<RegistrationCache>(*std::move(device), keeps_other);
    }
    return memory_;
  }

  Result<DeviceChoice> choose() const {
    if (config_.encrypt)
      return Status(Code::unavailable,
                    "RONDEL_ENCRYPT=1 asks for encrypted links, which RDMA devices do not make",
                    "unset it, or use another transport");
    RONDEL_TRY(library_);
    const auto devices = survey(*library_);
    RONDEL_TRY(devices);
    return choose_device(*devices, wish_of(config_));
  }

  // Where the ranks meet before their queue pairs do: on the same addresses as other transports.
  Result<MeetingPlace> meeting_place(bool single_host) const {
    auto filter = NetFilter::parse(config_.net);
    RONDEL_TRY(filter);
    auto interfaces = system_interfaces();
    RONDEL_TRY(interfaces);
    MeetingPlace place;
    const auto loopback = std::find_if(interfaces->begin(), interfaces->end(),
                                       [](const Interface& i) { return i.address.is_loopback(); });
    if (loopback != interfaces->end()) place.addresses.push_back(loopback->address);
    if (!single_host || place.addresses.empty()) {
      auto chosen = filter->choose(*interfaces);
      RONDEL_TRY(chosen);
      for (const Interface& i : *chosen)
        if (std::find(place.addresses.begin(), place.addresses.end(), i.address) == place.addresses.end())
          place.addresses.push_back(i.address);
    }
    place.interfaces = *std::move(interfaces);
    place.ports = config_.port_range;
    place.handshake_limit = config_.handshake_timeout;
    place.silence = config_.silence_timeout;
    return place;
  }

  const Result<VerbsLibrary> library_;
  const Config config_;
  const Secret secret_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<RegistrationCache> memory_;  // guarded by mutex_; opened when it is first needed
};

}  // namespace

std::unique_ptr<Transport> make_transport_on(const Result<VerbsLibrary>& library, const Config& config,
                                             const Secret& secret) {
  return std::make_unique<VerbsTransport>(library, config, secret);
}

std::unique_ptr<Transport> make_transport(const Config& config, const Secret& secret) {
  // Most hosts have no device; their ranks start without the library and its providers.
  if (!kernel_has_devices()) return make_transport_on(choose_device({}, {}).status(), config, secret);
  return make_transport_on(system_library(), config, secret);
}

}  // namespace rondel::verbs
