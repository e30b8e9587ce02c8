// SPDX-License-Identifier: Apache-2.0
// LinkFault: the first failure of a link, which the endpoint turns into the sentence with rank and host.
// Owned by the link; driver thread only.
#pragma once

#include <string>
#include <utility>

#include "lib/status.h"

namespace rondel::verbs {

struct LinkFault {
  Code code = Code::ok;
  std::string text;
  std::string hint;
  bool local = false;  // this rank's own: the peer is not to blame

  bool is_set() const { return code != Code::ok; }
  /// The first one counts.
  void set(Code why, std::string cause, std::string advice = {}) {
    if (!is_set()) *this = {why, std::move(cause), std::move(advice), false};
  }
  void set_local(Code why, std::string cause, std::string advice = {}) {
    if (!is_set()) *this = {why, std::move(cause), std::move(advice), true};
  }
};

}  // namespace rondel::verbs
