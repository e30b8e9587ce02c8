// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/linger.h"

#include <sched.h>

#include <algorithm>

namespace rondel::verbs {

void linger(const LinkTable& links, CompletionQueues& queues, Deadline deadline) {
  for (const auto& link : links.all())
    if (link != nullptr) link->prove_arrival();
  const auto owes = [](const auto& link) {
    return link != nullptr && link->owes_arrival() && !link->peer_has_gone();
  };
  while (std::any_of(links.all().begin(), links.all().end(), owes) && !queues.broken() &&
         !deadline.passed()) {
    for (const ibv_wc& completion : queues.take_departures())
      if (Link* const link = links.of(completion); link != nullptr) link->departed(completion);
    ::sched_yield();
  }
}

}  // namespace rondel::verbs
