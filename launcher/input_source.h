// SPDX-License-Identifier: Apache-2.0
// InputSource: reads the launcher's standard input for a rank on another host, no more than that rank's agent
// has asked for. Owned by the job, runs in its loop; one thread. It leaves a terminal alone whose foreground
// is somebody else's.
#pragma once

#include <functional>

#include "launcher/agent_protocol.h"
#include "launcher/event_loop.h"

namespace rondel {

class InputSource {
 public:
  using Send = std::function<void(const agent::FromLauncher& message)>;

  InputSource(EventLoop& loop, Send send) : loop_(loop), send_(std::move(send)) {}
  InputSource(const InputSource&) = delete;
  InputSource& operator=(const InputSource&) = delete;
  ~InputSource() { stop(); }

  void grant(std::uint32_t bytes);
  /// After the launcher was stopped and goes on, maybe in the foreground now.
  void resume();
  void stop();

 private:
  bool read_some();

  EventLoop& loop_;
  Send send_;
  std::size_t room_ = 0;
  bool watched_ = false;
  bool ended_ = false;
};

/// Whether reading standard input would stop this process: it is a terminal that another group has.
bool input_is_taken();

}  // namespace rondel
