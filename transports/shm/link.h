// SPDX-License-Identifier: Apache-2.0
// Link: the connection to one peer, its works in both directions, and the state machine that moves them
// through the shared segment. Small works travel in the lane; of larger ones the receiver is told where they
// lie, and reads them there: mapped memory directly, other memory with the kernel's help, and only where
// neither can be through the lane as well. Owned by the endpoint; driver thread only. It never waits, but for
// a peer that is reading when the link is given up.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/private_fd.h"
#include "lib/status.h"
#include "transports/endpoint.h"
#include "transports/shm/frame.h"
#include "transports/shm/lane.h"
#include "transports/shm/notes.h"
#include "transports/shm/regions.h"
#include "transports/shm/segment.h"
#include "transports/sink.h"
#include "transports/work_queue.h"

namespace rondel::shm {

/// What a turn of a link did.
struct Turn {
  bool moved = false;
  std::size_t finished = 0;
};

/// A failure of one link; the endpoint turns it into the sentence with rank and host.
struct LinkFault {
  Code code = Code::ok;
  std::string text;
  std::string hint;
};

/// What connecting gives.
struct Connection {
  PrivateFd socket;
  SegmentHold segment;
  int side = 0;   ///< 0: this side dialled
  pid_t pid = 0;  ///< the peer's, when it can be seen from here
};

class Link {
 public:
  /// `stage` is the endpoint's scratch for bytes on their way; outlives the link.
  Link(Rank peer, Connection connection, std::span<std::byte> stage);

  Rank peer() const { return peer_; }
  int socket() const { return socket_.get(); }

  std::size_t room_for(Verb verb) const { return verb == Verb::send ? sends_.room() : receives_.room(); }
  void post(const Work& work);
  bool gone() const { return gone_; }
  bool busy() const { return !sends_.empty() || !receives_.empty(); }

  Turn turn();
  /// Lets the peer map memory that it does not know yet; whether it will.
  bool announce(const SharedMemory::Place& place);
  bool show_board(int fd) { return send_note(socket(), make_note(NoteKind::board), fd); }
  /// Where the peer's memory is here; empty when it has not shared it.
  std::span<std::byte> reach(std::uint64_t region, std::uint64_t offset, std::size_t bytes);
  /// What the peer has shown; empty before.
  std::span<std::byte> board();
  std::span<std::byte> shown_board() const { return board_ ? board_->bytes() : std::span<std::byte>(); }
  void send_wake() {
    send_note(socket(), make_note(NoteKind::wake));
  }  // no room: then there is plenty to wake it

  /// Its peer has gone, and is needed.
  void lose();
  /// Takes the notes that have arrived, and with them word of the peer's death. May make the link faulty.
  void read_notes();

  /// Asks the peer for a wake when it moves something. Whether there is something to do already must be
  /// looked at afterwards.
  void fall_asleep() { mine().sleeping.store(1, std::memory_order_seq_cst); }
  void wake_up() { mine().sleeping.store(0, std::memory_order_relaxed); }
  bool has_something_to_do() const;
  /// Whether it goes on when the socket has room.
  bool waits_for_room() const {
    return !sends_.empty() && sends_.front().refilling && sends_.front().missing_bytes > 0;
  }

  bool faulty() const { return fault_.code != Code::ok; }
  const LinkFault& fault() const { return fault_; }
  const LabelMismatch& mismatch() const { return mismatch_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t bytes_received() const { return bytes_received_; }

  /// Finishes every posted work with `why` and leaves; when it returns the peer reads nothing of this side's.
  void fail_all(Code why);

  std::uint32_t watched_events = 0;  ///< for the endpoint's Readiness

 private:
  struct Outgoing {
    FrameHeader header;
    bool header_written = false;
    std::vector<Slice> slices;  // their room is kept for the next work
    std::vector<PlaceEntry> places;
    SliceCursor payload{std::span<const Slice>()};
    std::uint64_t missing_bytes = 0;  // of what goes through the lane, or in refills
    bool refilling = false;           // the receiver could not read it where it is
    Completion* done = nullptr;
  };

  SideState& mine() const { return segment_->side[side_]; }
  SideState& theirs() const { return segment_->side[1 - side_]; }
  bool peer_closed() const {
    return theirs().closed.load(std::memory_order_seq_cst) != 0;  // pairs with fail_all()
  }

  void choose_way(Outgoing& out);
  bool find_places(Outgoing& out);
  bool is_refused(const Outgoing& out) const;
  bool refill(Outgoing& out);
  Turn send_some();
  bool write(Outgoing& out);
  std::size_t lane_bytes_to_begin(const Outgoing& out) const;
  bool is_finished(const Outgoing& out) const;
  Turn receive_some();
  bool accept_header();
  void read_places();
  bool take_from_lane();
  bool pull_some();
  bool take_refills();
  void take_refill(std::span<const std::byte> bytes);
  void refuse();
  void pull_piece();
  void pull_mapped(const PlaceEntry& place);
  void pull_foreign(const PlaceEntry& place);
  void take_board(const ReceivedNote& note);
  void notify();
  void stop(Code code, std::string text, std::string hint = {});
  void stop(const Status& status) { stop(status.code(), status.failure().cause, status.failure().hint); }

  const Rank peer_;
  PrivateFd socket_;
  SegmentHold segment_;
  const int side_;
  const pid_t pid_;
  std::span<std::byte> stage_;

  LaneWriter writer_;
  WorkQueue<Outgoing> sends_;
  std::size_t unwritten_ = 0;  // the first of sends_ that is not wholly in the lane
  std::uint32_t frames_sent_ = 0;
  std::uint64_t pulls_offered_ = 0;
  AnnouncedRegions announced_;

  LaneReader reader_;
  WorkQueue<Sink> receives_;
  std::uint32_t frames_received_ = 0;
  bool in_payload_ = false;  // the header of receives_.front() has been accepted
  FrameHeader incoming_;
  std::vector<PlaceEntry> places_;
  std::size_t place_ = 0;
  std::uint64_t place_offset_ = 0;
  bool refused_ = false;  // the rest of the payload comes in refills
  MappedRegions regions_;
  std::optional<Mapping> board_;

  bool told_of_mapping_ = false;
  bool told_ = true;   // the peer has been woken for all that was moved
  bool gone_ = false;  // the peer's end of the socket is closed
  std::string why_gone_;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
  LinkFault fault_;
  LabelMismatch mismatch_;
};

}  // namespace rondel::shm
