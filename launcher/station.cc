// SPDX-License-Identifier: Apache-2.0
#include "launcher/station.h"

#include <utility>

#include "launcher/job_order.h"
#include "launcher/resources.h"

namespace rondel {

Result<Station> make_station(const JobPlan& plan, const std::string& version, bool files,
                             doctor::TransportLook look) {
  LocalAgent local;
  if (plan.uses_this_host()) {  // before there is anything that a forked process should not have
    auto forked = fork_agent(version, std::move(look));
    if (!forked.ok()) return std::move(forked).status();
    local = *std::move(forked);
  }
  const auto ranks = static_cast<std::size_t>(plan.size());
  auto descriptor_limit =
      make_room_for_descriptors(launcher_descriptors(ranks, plan.hosts.size(), files), ranks, "launcher");
  auto secret = Secret::generate();
  if (!secret.ok()) return std::move(secret).status();
  auto signals = SignalSource::create();
  if (!signals.ok()) return std::move(signals).status();
  auto loop = EventLoop::create();
  if (!loop.ok()) return std::move(loop).status();
  return Station{std::move(local), std::move(descriptor_limit), *secret, *std::move(signals),
                 *std::move(loop)};
}

ProcessRequest login_request(const SignalSource& signals, const rlimit& descriptor_limit) {
  ProcessRequest request;
  request.search_path = search_path_of({});
  request.environment = inherited_environment();
  request.signal_mask = signals.original_mask();
  request.descriptor_limit = descriptor_limit;
  return request;
}

}  // namespace rondel
