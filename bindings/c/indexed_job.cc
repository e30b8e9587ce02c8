// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/indexed_job.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <memory>

#include "lib/config.h"
#include "lib/host_identity.h"

namespace rondel::c {
namespace {

/// With its domain, as /etc/hosts has it in a pod.
std::string full_host_name() {
  std::string name = host_name();
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_CANONNAME;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &wanted, &found) != 0) return name;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
  return found->ai_canonname == nullptr ? name : found->ai_canonname;
}

}  // namespace

Result<std::string> first_pod(std::string_view own_name, std::string_view index) {
  const auto dot = own_name.find('.');
  const std::string_view pod = own_name.substr(0, dot);
  if (!pod.ends_with(fmt::format("-{}", index)))
    return Status(
        Code::invalid_argument,
        fmt::format("this pod's host name \"{}\" does not end in -{} (JOB_COMPLETION_INDEX), so pod 0's "
                    "name can not be told from it",
                    own_name, index),
        "set MASTER_ADDR to a name of pod 0 in the manifest");
  if (dot == std::string_view::npos)
    return Status(
        Code::invalid_argument,
        fmt::format("this pod's name \"{}\" has no domain in which other pods could find it", own_name),
        "set subdomain in the pod template to the name of a headless Service that selects the Job's pods");
  return fmt::format("{}0{}", pod.substr(0, pod.size() - index.size()), own_name.substr(dot));
}

std::optional<Result<TorchrunMaster>> pod_master() {
  const char* const index = environment_variable("JOB_COMPLETION_INDEX");
  const char* const given = environment_variable("MASTER_ADDR");
  if (index == nullptr || (given != nullptr && *given != '\0')) return std::nullopt;
  const auto port = master_port(kPodPort);
  if (!port.ok()) return Result<TorchrunMaster>(port.status());
  auto name = first_pod(full_host_name(), index);
  if (!name.ok()) return Result<TorchrunMaster>(std::move(name).status());
  return Result<TorchrunMaster>(TorchrunMaster{*std::move(name), *port, true});
}

}  // namespace rondel::c
