// SPDX-License-Identifier: Apache-2.0
// Door: where the peers of one endpoint come in: a listening Unix socket without a place in the file system,
// and the greetings under way. The smaller rank dials and brings the segment; each side shows the other's
// token, which only the job's ranks know, from the authenticated store. Nothing happens outside admit().
// Owned by the endpoint; driver thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
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
};
Bytes encode(const DoorAddress& address);
Result<DoorAddress> decode_door_address(std::span<const std::byte> bytes);

class Door {
 public:
  struct Options {
    Rank rank = 0;
    Rank size = 1;
    bool pull = true;  ///< let peers read this process's memory, and read theirs
    std::chrono::milliseconds greeting_limit{5'000};  ///< a stranger's time
  };

  static Result<std::unique_ptr<Door>> open(const Options& options);

  const DoorAddress& address() const { return address_; }

  /// Begins to reach `peer`; no-op when that is under way. peer_lost when nobody is there any more.
  Status dial(Rank peer, std::span<const std::byte> address);
  struct Guest {
    Rank peer = kNoRank;
    Connection connection;
  };
  /// Waits up to `may_block_for` and returns those of `awaited` whose greeting is complete. peer_lost or
  /// refused, with failure().peer, when one of them will not come.
  Result<std::vector<Guest>> admit(std::span<const Rank> awaited, std::span<const Bytes> by_rank,
                                   std::chrono::nanoseconds may_block_for);

 private:
  struct Dialled {
    PrivateFd socket;
    SegmentHold segment;
  };
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
  void accept_callers();
  void hear_callers();
  Status seat(Caller& caller, ReceivedNote hello);
  Result<bool> hear_welcome(Rank peer, Guest& guest);
  Result<bool> welcome(Rank peer, std::span<const std::byte> address, Guest& guest);
  void greet_back(Note& note, std::span<const std::byte> token) const;
  Guest make_guest(Rank peer, PrivateFd socket, SegmentHold segment, int side, const Note& theirs) const;

  const Options options_;
  DoorAddress address_;
  std::uint64_t probe_value_ = 0;  // what a peer that reads this process's memory must find
  PrivateFd listener_;
  std::map<Rank, Dialled> dialled_;
  std::deque<Caller> callers_;  // have not said who they are
  std::uint64_t strangers_ = 0;
  std::map<Rank, Waiting> waiting_;  // have, and are not awaited yet
};

}  // namespace rondel::shm
