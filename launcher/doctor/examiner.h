// SPDX-License-Identifier: Apache-2.0
// Examiner: an agent's part in `rondelrun doctor`: says what its host is like, answers probes, and probes
// others when told to. Owned by the agent, runs in its loop; what blocks is done on threads of its own, so
// that the launcher is always heard. It judges nothing.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launcher/agent_protocol.h"
#include "launcher/doctor/facts.h"
#include "launcher/doctor/probe_server.h"
#include "launcher/event_loop.h"
#include "lib/auth.h"

namespace rondel::doctor {

/// What this build's transports say of themselves here; the program knows, the launcher's parts do not.
using TransportLook = std::function<std::vector<TransportFacts>(const std::string& net)>;

class Examiner {
 public:
  using Send = std::function<void(const agent::FromAgent& message)>;

  /// Begins to listen, and to look around.
  static Result<std::unique_ptr<Examiner>> start(EventLoop& loop, const agent::Examine& order,
                                                 TransportLook look, Send send);
  Examiner(const Examiner&) = delete;
  Examiner& operator=(const Examiner&) = delete;
  ~Examiner();  // does not wait for what still blocks

  void take(const agent::ClockAsk& ask) const;
  void take(const agent::Reach& order);
  void take(const agent::Measure& order);

 private:
  /// Shared with the threads, which may outlive the examiner.
  struct Results {
    std::mutex lock;
    std::deque<agent::FromAgent> messages;
    UniqueFd bell;
  };

  Examiner(EventLoop& loop, const agent::Examine& order, const Secret& secret, Send send);
  Status open();
  void run(std::function<agent::FromAgent()> work);
  void send_results();

  EventLoop& loop_;
  Secret secret_;
  Send send_;
  ProbeServer server_;
  std::shared_ptr<Results> results_;
};

}  // namespace rondel::doctor
