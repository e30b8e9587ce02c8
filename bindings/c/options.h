// SPDX-License-Identifier: Apache-2.0
// What a caller wants, checked and merged: the environment, overlaid by rondel_options_t. A value, any
// thread.
#pragma once

#include <string>

#include "bindings/c/include/rondel.h"
#include "lib/config.h"
#include "lib/status.h"

namespace rondel::c {

struct Settings {
  Config config;
  std::string address;  ///< rondel_options_t::address
};

/// `options` may be null. A caller built against a newer header is accepted when the fields unknown here are
/// zero.
Result<Settings> settings_from(const rondel_options_t* options);

}  // namespace rondel::c
