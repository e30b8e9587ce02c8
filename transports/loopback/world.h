// SPDX-License-Identifier: Apache-2.0
// What the threads of a loopback world share: a Port per endpoint and, in it, the sends it offers to its
// peers. One mutex guards all of it; bytes are copied outside that mutex, under the `moving` mark. Private to
// the backend.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "lib/status.h"
#include "lib/unique_fd.h"
#include "transports/work.h"

namespace rondel::loopback {

using PortId = std::uint64_t;

/// A posted send: on loan to its receiver from post until its sender finishes it.
struct Send {
  std::vector<Slice> from;
  std::size_t bytes = 0;
  Label label;
  Completion* done = nullptr;
};

/// The sends from one rank to one other, oldest first.
struct Outgoing {
  std::deque<Send> sends;
  std::size_t moved =
      0;  ///< how many at the front the receiver has copied and their sender has not finished yet
  bool moving = false;  ///< the receiver reads sends[moved] right now, without the mutex
};

/// What the others see of one endpoint. Stays valid as long as somebody is connected to it.
struct Port {
  PortId id = 0;
  std::condition_variable changed;
  bool woken = false;           ///< something changed since its owner looked last
  bool closed = false;          ///< poisoned or destroyed
  Code closed_with = Code::ok;  ///< why
  std::set<PortId> wanted;      ///< whom it has asked to be connected with
  std::map<PortId, Outgoing> outgoing;
  UniqueFd descriptor;  ///< eventfd; made when somebody asks for it

  void wake();
};

class World {
 public:
  World();

  std::shared_ptr<Port> open_port();
  void remove_port(PortId id);
  /// Null when there is none (any more). The caller holds `mutex`.
  std::shared_ptr<Port> find_port(PortId id) const;
  /// Differs between worlds and between processes, forked ones too.
  std::string domain() const;
  std::uint64_t nonce() const { return nonce_; }

  std::mutex mutex;

 private:
  const std::uint64_t nonce_;
  PortId next_id_ = 1;
  std::map<PortId, std::shared_ptr<Port>> ports_;
};

}  // namespace rondel::loopback
