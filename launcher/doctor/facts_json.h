// SPDX-License-Identifier: Apache-2.0
// HostFacts as JSON: how an agent sends them, and a part of `rondelrun doctor --json`. Pure; what comes from
// another host may hold anything, and what does not fit is refused.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/doctor/facts.h"
#include "lib/status.h"

namespace rondel::doctor {

nlohmann::ordered_json to_json(const HostFacts& facts);
/// refused: no such JSON.
Result<HostFacts> facts_from(const std::string& json);

}  // namespace rondel::doctor
