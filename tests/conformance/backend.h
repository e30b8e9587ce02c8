// SPDX-License-Identifier: Apache-2.0
// What the suite must know of the backend that it checks. Each program of the suite links one make_backend();
// a new backend adds one file with it. Main thread, but transport_for() is called on every rank's thread.
#pragma once

#include <memory>

#include "lib/auth.h"
#include "transports/transport.h"

namespace rondel::conformance {

/// One world of ranks that can connect with one another, and with no other world's.
class Backend {
 public:
  virtual ~Backend() = default;
  /// Every rank opens its endpoints through a transport of its own, as it would in a process of its own.
  virtual std::unique_ptr<Transport> transport_for(Rank rank) = 0;
  /// Ranks may be forked processes, each with its copy of this object.
  virtual bool connects_processes() const = 0;
};

std::unique_ptr<Backend> make_backend();

/// A job's secret, for backends that need one.
Secret fresh_secret();

}  // namespace rondel::conformance
