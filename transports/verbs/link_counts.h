// SPDX-License-Identifier: Apache-2.0
// LinkCounts: what a link has moved, and what it asked of the device for that. Values.
#pragma once

#include <cstdint>

namespace rondel::verbs {

struct LinkCounts {
  std::uint64_t sent_bytes = 0;       // payload
  std::uint64_t received_bytes = 0;   // payload
  std::uint64_t work_requests = 0;    // writes and messages
  std::uint64_t signalled = 0;        // of them, those that ask for a completion
  std::uint64_t receives = 0;         // posted
  std::uint64_t doorbells = 0;        // calls that post, of either kind
  std::uint64_t staged_bytes = 0;     // payload that was folded from a stage or taken out of a message
  std::uint64_t eager_sends = 0;      // works that went in a message
  std::uint64_t stripe_requests = 0;  // of the requests, those over further queue pairs

  LinkCounts& operator+=(const LinkCounts& more) {
    sent_bytes += more.sent_bytes;
    received_bytes += more.received_bytes;
    work_requests += more.work_requests;
    signalled += more.signalled;
    receives += more.receives;
    doorbells += more.doorbells;
    staged_bytes += more.staged_bytes;
    eager_sends += more.eager_sends;
    stripe_requests += more.stripe_requests;
    return *this;
  }
};

}  // namespace rondel::verbs
