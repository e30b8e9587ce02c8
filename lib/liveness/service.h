// SPDX-License-Identifier: Apache-2.0
// Service: the server's side of liveness without its sockets. Frames of members go in, frames for members
// come out. Decodes for the Monitor and keeps count of who has arrived. One thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/liveness/messages.h"
#include "lib/liveness/monitor.h"

namespace rondel::liveness {

struct Outgoing {
  MemberId to = 0;
  Bytes body;
};

class Service {
 public:
  /// A failure means that the member speaks nonsense: end its connection, then call gone().
  Result<std::vector<Outgoing>> take(MemberId member, std::span<const std::byte> body, TimePoint now);
  std::vector<Outgoing> gone(MemberId member, const std::string& why);
  std::vector<Outgoing> tick(TimePoint now);
  TimePoint next_tick() const { return monitor_.next_tick(); }

  /// Ranks that have ever joined the job's first communicator.
  const std::set<Rank>& arrived() const { return arrived_; }
  /// Of these, the first that went without a goodbye: what others fail of after that, it has caused.
  std::optional<Rank> first_fallen() const { return first_fallen_; }

 private:
  Monitor::Instructions dispatch(MemberId member, ToServer message, TimePoint now);

  Monitor monitor_;
  std::optional<Context> first_;
  std::set<Rank> arrived_;
  std::map<MemberId, Rank> present_;  // of the first communicator, until they leave or say goodbye
  std::optional<Rank> first_fallen_;
};

}  // namespace rondel::liveness
