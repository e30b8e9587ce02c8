// SPDX-License-Identifier: Apache-2.0
// Door: where the peers of one endpoint come in: a listening Unix socket without a place in the file system.
// The smaller rank of a pair dials and brings the segment, and may use it at once; the larger takes it over
// when it connects too. Who dials shows the token of the door, which only the job's ranks know, from the
// authenticated store; who is dialled holds a name that nobody could guess. Both must be the same user.
// Nothing happens outside its calls. Owned by the endpoint; driver thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "lib/memory.h"
#include "lib/private_fd.h"
#include "lib/status.h"
#include "lib/types.h"
#include "transports/shm/link.h"
#include "transports/shm/notes.h"

namespace rondel::shm {

/// How a peer finds a door.
struct DoorAddress {
  std::string name;  ///< of the abstract socket
  Bytes token;
  std::uint64_t probe_address = 0;  ///< where a reader of the owner's memory must find `probe_value`
  std::uint64_t probe_value = 0;
};
Bytes encode(const DoorAddress& address);
Result<DoorAddress> decode_door_address(std::span<const std::byte> bytes);

class Door {
 public:
  struct Options {
    Rank rank = 0;
    bool pull = true;  ///< let peers read this process's memory, and read theirs
    std::chrono::milliseconds greeting_limit{5'000};  ///< a stranger's time
  };

  static Result<std::unique_ptr<Door>> open(const Options& options);

  const DoorAddress& address() const { return address_; }

  struct Guest {
    Rank peer = kNoRank;
    Connection connection;
  };
  /// Reaches `peer`; nothing when its queue is full for the moment. peer_lost when it is not there any more.
  Result<std::optional<Guest>> dial(Rank peer, std::span<const std::byte> address);
  /// Waits up to `may_block_for` for callers, and returns those of `awaited` that have come.
  Result<std::vector<Guest>> admit(std::span<const Rank> awaited, std::chrono::nanoseconds may_block_for);

 private:
  struct Caller {
    PrivateFd socket;
    Deadline due;
  };
  struct Waiting {
    PrivateFd socket;
    SegmentHold segment;
    Note hello;
  };

  explicit Door(const Options& options) : options_(options) {}
  void await(std::chrono::nanoseconds at_most) const;
  Status accept_callers();
  Status hear_callers();
  Status seat(Caller& caller, ReceivedNote hello);
  Guest make_guest(Rank peer, PrivateFd socket, SegmentHold segment, int side, std::uint64_t probe_address,
                   std::uint64_t probe_value) const;

  const Options options_;
  DoorAddress address_;
  std::uint64_t probe_value_ = 0;  // what a peer that reads this process's memory must find
  PrivateFd listener_;
  std::deque<Caller> callers_;  // have not said who they are
  std::uint64_t strangers_ = 0;
  std::map<Rank, Waiting> waiting_;  // have, and are not awaited yet
};

}  // namespace rondel::shm
