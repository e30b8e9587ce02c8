// SPDX-License-Identifier: Apache-2.0
// ProbeServer: lets the other hosts of an examination connect to this one, on the addresses and ports that
// ranks would listen on, and answers what probe_wire.h allows. Owned by the Examiner, runs in the agent's
// loop; one thread. A stranger costs a closed socket.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "launcher/doctor/facts.h"
#include "launcher/event_loop.h"
#include "lib/auth.h"
#include "lib/port_range.h"

namespace rondel::doctor {

class ProbeServer {
 public:
  ProbeServer(EventLoop& loop, const Secret& secret, std::uint32_t host);
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;
  ~ProbeServer();

  /// Listens on a free port; with a range on its first and its last free one, so that both its ends are
  /// tried. What could not be had is in the result's words.
  PortFacts listen(PortRange range);

 private:
  struct Guest;

  Status add_listener(std::uint16_t port, PortFacts& facts);
  void accept(int listener);
  void drop_late();
  void drop(int guest);
  void serve(int fd);
  bool greet(Guest& guest);
  bool echo(Guest& guest) const;
  bool count(Guest& guest) const;

  EventLoop& loop_;
  Secret secret_;
  std::uint32_t host_;
  std::vector<UniqueFd> listeners_;
  std::map<int, std::unique_ptr<Guest>> guests_;  // by descriptor
};

}  // namespace rondel::doctor
