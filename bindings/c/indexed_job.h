// SPDX-License-Identifier: Apache-2.0
// Where the pods of a Kubernetes Job in Indexed mode meet, which nobody starts but the cluster: pod 0's name
// follows from each pod's own, as the pods of one Job are called JOB-INDEX and share a headless service's
// domain. Any thread; asks the system's resolver for this host's own name only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bindings/c/torchrun.h"
#include "lib/status.h"

namespace rondel::c {

/// MASTER_PORT where a manifest sets none; torchrun's own default.
inline constexpr std::uint16_t kPodPort = 29500;

/// "train-0.svc.ns" for "train-3.svc.ns" with index 3. invalid_argument, with what the manifest lacks, when
/// the name does not end in the index, or has no domain in which others could find it.
Result<std::string> first_pod(std::string_view own_name, std::string_view index);

/// Rank 0's pod, when this process runs in one of such a Job (JOB_COMPLETION_INDEX) and MASTER_ADDR names
/// nobody.
std::optional<Result<TorchrunMaster>> pod_master();

}  // namespace rondel::c
