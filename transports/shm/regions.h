// SPDX-License-Identifier: Apache-2.0
// Regions: which shared memories the two ends of a link know by number. AnnouncedRegions is the sender's
// side: it hands a memory's descriptor over before the first place in it is named, and takes it back when the
// memory is gone. MappedRegions is the receiver's. Owned by a link; driver thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "lib/shared_memory.h"
#include "lib/status.h"
#include "transports/shm/mapping.h"
#include "transports/shm/notes.h"

namespace rondel::shm {

class AnnouncedRegions {
 public:
  /// Whether the peer knows `place` now, or will when it has read its notes.
  bool announce(int socket, const SharedMemory::Place& place);
  /// Tells the peer of those that are gone, as far as the socket has room; cheap when there are none.
  void forget_dead(int socket);

 private:
  std::set<std::uint64_t> known_;
  std::vector<std::uint64_t> dead_;  // that the peer has not been told of yet
  std::uint64_t departures_ = SharedMemory::departures();
};

class MappedRegions {
 public:
  Status add(const ReceivedNote& note);
  void remove(std::uint64_t id) { regions_.erase(id); }
  /// Empty when the region is not known or the range is not in it.
  std::span<std::byte> find(std::uint64_t id, std::uint64_t offset, std::uint64_t bytes) const;

 private:
  std::map<std::uint64_t, Mapping> regions_;
};

}  // namespace rondel::shm
