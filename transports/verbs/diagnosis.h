// SPDX-License-Identifier: Apache-2.0
// What a failed completion means for a person, and for the layers above. Pure, any thread.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "lib/status.h"

namespace rondel::verbs {

struct Diagnosis {
  Code code = Code::io_error;
  std::string cause;  ///< completes "can not go on with rank 3: ..."
  std::string hint;
  bool local = false;  ///< it is about this rank's own memory or device
};

/// Whether this completion only says that another one failed before it.
inline bool is_flush(ibv_wc_status status) { return status == IBV_WC_WR_FLUSH_ERR; }
Diagnosis diagnose(ibv_wc_status status);

}  // namespace rondel::verbs
