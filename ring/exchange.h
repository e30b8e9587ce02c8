// SPDX-License-Identifier: Apache-2.0
// Exchange: how the ranks of a communicator that does not exist yet tell one another what they must know:
// through the job's store, or through the communicator that is being split. Driver thread only.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lib/deadline.h"
#include "lib/liveness/member.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/store/store.h"

namespace rondel {

class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Every rank gives its bytes and gets those of all, by rank. Collective; a failure is the same on every
  /// rank that can be reached, and names the ranks that never came.
  virtual Result<std::vector<Bytes>> all_gather(std::string_view what, const Bytes& mine,
                                                Deadline deadline) = 0;
};

/// Through keys under `prefix`: each rank sets its own, rank 0 reads them all and sets one for all to read.
/// `mutex` guards the store, which other threads of the process may use for other communicators; it is held
/// for short waits only. `watch` cuts waits short when a rank dies.
std::unique_ptr<Exchange> make_store_exchange(Store& store, std::mutex& mutex, std::string prefix, Rank rank,
                                              Rank size, std::shared_ptr<liveness::Watch> watch);

}  // namespace rondel
