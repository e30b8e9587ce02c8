// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/link.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "lib/deadline.h"
#include "lib/log.h"
#include "transports/shm/notes.h"
#include "transports/shm/pull.h"

namespace rondel::shm {
namespace {

// Up to here a copy through the lane costs less than waiting until the receiver has read: in mapped memory,
// and with the kernel's help.
constexpr std::size_t kLaneWorkBytes = 8 * 1024;
constexpr std::size_t kLaneForeignBytes = 64 * 1024;
// One piece of a pull: little enough that other links get their turn.
constexpr std::size_t kMappedPieceBytes = std::size_t{1} << 20;
// How long a peer that is in the middle of reading is waited for when the link is given up.
constexpr std::chrono::milliseconds kReadingLimit{200};
// Who never sleeps reads its notes too.
constexpr std::uint32_t kFramesPerNoteLook = 64;

}  // namespace

Link::Link(Rank peer, Connection connection, std::span<std::byte> stage)
    : peer_(peer),
      socket_(std::move(connection.socket)),
      segment_(std::move(connection.segment)),
      side_(connection.side),
      pid_(connection.pid),
      stage_(stage),
      writer_(segment_->lane[side_], segment_->ring[side_]),
      reader_(segment_->lane[1 - side_], segment_->ring[1 - side_]) {}

// ---- sending

void Link::post(const Work& work) {
  if (work.verb != Verb::send) return receives_.push().reset(work);
  Outgoing& out = sends_.push();
  out.slices.assign(work.local.begin(), work.local.end());
  out.payload = SliceCursor(std::span<const Slice>(out.slices));
  out.header = {};
  out.header.number = frames_sent_++;
  out.header.bytes = total_bytes(work.local);
  out.header.label = work.label;
  out.header_written = false;
  out.refilling = false;
  out.done = work.done;
  choose_way(out);
}

void Link::choose_way(Outgoing& out) {
  announced_.forget_dead(socket());
  out.missing_bytes = out.header.bytes;
  if (out.header.bytes <= kLaneWorkBytes || !find_places(out)) return;
  out.header.carries = Carries::places;
  out.header.places = static_cast<std::uint32_t>(out.places.size());
  out.header.pull_number = ++pulls_offered_;
  out.missing_bytes = 0;
}

// False when the peer can not read all of it where it is.
bool Link::find_places(Outgoing& out) {
  // A wrong answer only costs time.
  const bool pulls = theirs().can_pull.load(std::memory_order_relaxed) != 0;
  const bool maps = theirs().can_not_map.load(std::memory_order_relaxed) == 0;
  const bool may_pull = pulls && out.header.bytes > kLaneForeignBytes;
  out.places.clear();
  for (const Slice& slice : out.slices) {
    if (slice.bytes == 0) continue;
    const auto place = SharedMemory::find(slice.data(), slice.bytes);
    if (place && maps && announced_.announce(socket(), *place))
      out.places.push_back({place->id, place->offset, slice.bytes});
    else if (may_pull)
      out.places.push_back({0, reinterpret_cast<std::uintptr_t>(slice.data()), slice.bytes});
    else
      return false;
  }
  return true;
}

std::size_t Link::lane_bytes_to_begin(const Outgoing& out) const {
  return sizeof(FrameHeader) + out.header.places * sizeof(PlaceEntry);
}

// Whether anything of it went into the lane.
bool Link::write(Outgoing& out) {
  bool wrote = false;
  if (!out.header_written) {
    if (writer_.room() < lane_bytes_to_begin(out) + kAlignment) return false;
    writer_.put(std::as_bytes(std::span(&out.header, 1)));
    if (out.header.places > 0) writer_.put(std::as_bytes(std::span(out.places)));
    writer_.align();
    out.header_written = wrote = true;
  }
  for (std::size_t room = writer_.room(); room > 0 && out.missing_bytes > 0;) {
    const std::size_t piece = std::min(room, out.payload.run().size());
    writer_.put(out.payload.run().first(piece));
    out.payload.advance(piece);
    out.missing_bytes -= piece;
    room -= piece;
    wrote = true;
  }
  if (!wrote) return false;
  if (out.missing_bytes == 0) writer_.align();
  writer_.publish();
  told_ = false;
  return true;
}

bool Link::is_finished(const Outgoing& out) const {
  if (!out.header_written || out.missing_bytes > 0) return false;
  return out.header.carries == Carries::bytes ||
         segment_->lane[side_].pulled.load(std::memory_order_acquire) >=
             out.header.pull_number;  // pairs with receive_some()
}

Turn Link::send_some() {
  Turn turn;
  while (unwritten_ < sends_.size()) {
    Outgoing& out = sends_.at(unwritten_);
    if (!write(out)) break;
    turn.moved = true;
    if (out.missing_bytes > 0) break;
    ++unwritten_;
  }
  if (!sends_.empty() && is_refused(sends_.front())) turn.moved |= refill(sends_.front());
  for (; !sends_.empty() && is_finished(sends_.front()); --unwritten_, ++turn.finished) {
    bytes_sent_ += sends_.front().header.bytes;
    sends_.front().done->finish(Code::ok);
    sends_.pop();
  }
  return turn;
}

bool Link::is_refused(const Outgoing& out) const {
  return out.header_written && out.header.carries == Carries::places &&
         segment_->lane[side_].refused.load(std::memory_order_acquire) ==
             out.header.pull_number;  // pairs with refuse()
}

// Sends what the receiver could not read where it is, as far as the socket has room.
bool Link::refill(Outgoing& out) {
  if (!out.refilling) {
    const std::uint64_t has = segment_->lane[side_].refused_at.load(std::memory_order_relaxed);
    out.payload = SliceCursor(std::span<const Slice>(out.slices));
    advance(out.payload, static_cast<std::size_t>(std::min(has, out.header.bytes)));
    out.missing_bytes = out.header.bytes - std::min(has, out.header.bytes);
    out.refilling = true;
  }
  bool sent = false;
  while (out.missing_bytes > 0) {
    const auto run = out.payload.run();
    const auto piece = run.first(std::min(run.size(), kRefillBytes));
    if (!send_refill(socket(), piece)) break;
    out.payload.advance(piece.size());
    out.missing_bytes -= piece.size();
    sent = true;
  }
  return sent;
}

// ---- receiving

Turn Link::receive_some() {
  Turn turn;
  if (receives_.empty() || (!in_payload_ && !accept_header())) return turn;
  Sink& sink = receives_.front();
  turn.moved = incoming_.carries == Carries::bytes ? take_from_lane()
               : refused_                          ? take_refills()
                                                   : pull_some();
  if (faulty() || !sink.complete()) return turn;
  if (incoming_.carries == Carries::places)
    segment_->lane[1 - side_].pulled.store(incoming_.pull_number,
                                           std::memory_order_release);  // pairs with is_finished()
  told_ = false;
  bytes_received_ += incoming_.bytes;
  sink.completion()->finish(Code::ok);
  receives_.pop();
  in_payload_ = refused_ = false;
  return {true, 1};
}

// Checks the next header against the work it should belong to, before any of its payload is used.
bool Link::accept_header() {
  const std::uint64_t there = reader_.available();
  if (there < sizeof(FrameHeader)) return false;
  std::memcpy(&incoming_, reader_.peek(sizeof(FrameHeader)).data(), sizeof(FrameHeader));
  if (there > kLaneBytes || incoming_.mark != kFrameMark || incoming_.number != frames_received_ ||
      there < sizeof(FrameHeader) + incoming_.places * sizeof(PlaceEntry)) {
    stop(Code::internal, fmt::format("the lane is out of step: frame {:#x}/{} where {:#x}/{} was due",
                                     incoming_.mark, incoming_.number, kFrameMark, frames_received_));
    return false;
  }
  const Sink& sink = receives_.front();
  if (incoming_.bytes != sink.total_bytes() || incoming_.label != sink.label()) {
    mismatch_ = {peer_, sink.label(), incoming_.label, sink.total_bytes(), incoming_.bytes};
    stop(Code::mismatch,
         fmt::format("it sends {} bytes where this rank expects {}", incoming_.bytes, sink.total_bytes()));
    return false;
  }
  reader_.skip(sizeof(FrameHeader));
  read_places();
  reader_.align();
  reader_.release();
  if (++frames_received_ % kFramesPerNoteLook == 0) read_notes();
  in_payload_ = true;
  return true;
}

void Link::read_places() {
  places_.resize(incoming_.places);
  place_ = 0;
  place_offset_ = 0;
  auto into = std::as_writable_bytes(std::span(places_));
  while (!into.empty()) {
    const auto piece = reader_.peek(into.size());
    std::memcpy(into.data(), piece.data(), piece.size());
    reader_.skip(piece.size());
    into = into.subspan(piece.size());
  }
}

bool Link::take_from_lane() {
  Sink& sink = receives_.front();
  const auto piece =
      reader_.peek(static_cast<std::size_t>(std::min<std::uint64_t>(sink.missing_bytes(), kLaneBytes)));
  if (piece.empty()) return sink.complete();
  sink.take(piece);
  reader_.skip(piece.size());
  if (sink.complete()) reader_.align();
  reader_.release();
  told_ = false;
  return true;
}

// While `reading` is set the peer does not leave; what was read after it left may be anything.
bool Link::pull_some() {
  if (receives_.front().complete()) return true;
  mine().reading.store(1, std::memory_order_seq_cst);  // pairs with fail_all()
  if (!peer_closed()) pull_piece();
  mine().reading.store(0, std::memory_order_release);  // pairs with fail_all()
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!faulty() && peer_closed()) stop(Code::peer_lost, "it has closed its endpoint");
  return !faulty();
}

void Link::pull_piece() {
  while (place_ < places_.size() && place_offset_ == places_[place_].bytes) {
    ++place_;
    place_offset_ = 0;
  }
  if (place_ == places_.size()) return stop(Code::internal, "the places it names hold less than it sends");
  const PlaceEntry& place = places_[place_];
  return place.region != 0 ? pull_mapped(place) : pull_foreign(place);
}

void Link::pull_mapped(const PlaceEntry& place) {
  const auto bytes = reach(place.region, place.at, static_cast<std::size_t>(place.bytes));
  if (faulty()) return;
  if (bytes.empty()) {
    mine().can_not_map.store(1, std::memory_order_relaxed);
    return refuse();
  }
  Sink& sink = receives_.front();
  const std::uint64_t left = std::min<std::uint64_t>(place.bytes - place_offset_, sink.missing_bytes());
  const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(left, kMappedPieceBytes));
  sink.take(bytes.subspan(static_cast<std::size_t>(place_offset_), piece));
  place_offset_ += piece;
}

void Link::pull_foreign(const PlaceEntry& place) {
  Sink& sink = receives_.front();
  const std::uint64_t left = std::min<std::uint64_t>(place.bytes - place_offset_, sink.missing_bytes());
  auto into = sink.folds() ? stage_ : sink.destination().run();
  into = into.first(
      static_cast<std::size_t>(std::min<std::uint64_t>(left, std::min(into.size(), stage_.size()))));
  if (!pull(pid_, place.at + place_offset_, into).ok()) {
    mine().can_pull.store(0, std::memory_order_relaxed);
    return refuse();
  }
  if (sink.folds())
    sink.take(into);
  else
    sink.arrived_in_place(into.size());
  place_offset_ += into.size();
  // A dead process's number may be another's: what was read counts only if the peer was there all along.
  if (!sink.complete()) return;
  read_notes();
  if (gone_) stop(Code::peer_lost, why_gone_);
}

// The kernel may forbid later what it allowed at first, and some memory can not be read from outside at all.
// If the peer has died instead, its socket says so.
void Link::refuse() {
  const Sink& sink = receives_.front();
  LaneState& lane = segment_->lane[1 - side_];
  lane.refused_at.store(sink.total_bytes() - sink.missing_bytes(), std::memory_order_relaxed);
  lane.refused.store(incoming_.pull_number, std::memory_order_release);  // pairs with is_refused()
  refused_ = true;
  told_ = false;
}

bool Link::take_refills() {
  const std::uint64_t before = receives_.front().missing_bytes();
  read_notes();
  return receives_.front().missing_bytes() < before;
}

void Link::take_refill(std::span<const std::byte> bytes) {
  if (!refused_ || receives_.empty() || receives_.front().missing_bytes() < bytes.size())
    return stop(Code::internal, "it sends bytes that were not asked for");
  receives_.front().take(bytes);
}

// ---- both

Turn Link::turn() {
  const bool left = gone_ || peer_closed();  // before the lanes are looked at: what it did until then counts
  Turn turn = send_some();
  const Turn received = receive_some();
  turn.moved |= received.moved;
  turn.finished += received.finished;
  notify();
  if (left && !turn.moved && turn.finished == 0 && busy() && !faulty()) lose();
  return turn;
}

void Link::lose() {
  stop(Code::peer_lost, gone_ && !why_gone_.empty() ? why_gone_ : "it has closed its endpoint");
}

// The order is: move, look whether the peer sleeps; and on the other side: say that it sleeps, look whether
// something has moved. Whichever comes second sees the other.
void Link::notify() {
  if (told_) return;
  told_ = true;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with fall_asleep()
  auto& sleeping = theirs().sleeping;
  if (sleeping.load(std::memory_order_relaxed) == 0 || sleeping.exchange(0, std::memory_order_relaxed) == 0)
    return;
  send_wake();
}

bool Link::has_something_to_do() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with notify()
  if (gone_ || faulty() || peer_closed()) return busy();
  if (!receives_.empty()) {
    const bool in_places = in_payload_ && incoming_.carries == Carries::places;
    if (in_places ? !refused_ || receives_.front().complete() : reader_.available() > 0) return true;
  }
  if (sends_.empty()) return false;
  if (is_finished(sends_.front()) || (is_refused(sends_.front()) && !sends_.front().refilling)) return true;
  if (unwritten_ == sends_.size()) return false;
  const Outgoing& next = sends_.at(unwritten_);
  return writer_.room() >= (next.header_written ? 1 : lane_bytes_to_begin(next) + kAlignment);
}

bool Link::announce(const SharedMemory::Place& place) {
  announced_.forget_dead(socket());
  return announced_.announce(socket(), place);
}

std::span<std::byte> Link::reach(std::uint64_t region, std::uint64_t offset, std::size_t bytes) {
  const auto known = regions_.find(region, offset, bytes);
  if (!known.empty()) return known;
  read_notes();  // a region is announced before it is named
  return regions_.find(region, offset, bytes);
}

std::span<std::byte> Link::board() {
  if (!board_) read_notes();
  return board_ ? board_->bytes() : std::span<std::byte>();
}

void Link::read_notes() {
  while (!gone_ && !faulty()) {
    auto got = receive_note(socket());
    if (!got.ok()) {
      if (got.code() == Code::refused) return stop(got.status());
      gone_ = true;
      why_gone_ = got.status().failure().cause;
      return;
    }
    if (!*got) return;
    if ((*got)->note.kind == NoteKind::forget) regions_.remove((*got)->note.id);
    if ((*got)->note.kind == NoteKind::board) take_board(**got);
    if ((*got)->note.kind == NoteKind::refill) take_refill((*got)->bytes);
    if ((*got)->note.kind != NoteKind::region) continue;
    if (const Status added = regions_.add(**got); !added.ok() && !told_of_mapping_) {
      told_of_mapping_ = true;
      log(LogLevel::warn, "memory of rank {} can not be mapped here: {}", peer_, added.text());
    }
  }
}

void Link::take_board(const ReceivedNote& note) {
  if (!note.fd) return stop(system_failure(Code::out_of_resources, "taking over a peer's board", EMFILE));
  auto mapping = Mapping::of(note.fd.get());
  if (!mapping.ok()) return stop(mapping.status());
  board_ = std::move(mapping).value();
}

void Link::fail_all(Code why) {
  mine().closed.store(1 + static_cast<std::uint32_t>(why),
                      std::memory_order_seq_cst);  // pairs with pull_some()
  const auto limit = Deadline::in(kReadingLimit);
  while (!sends_.empty() && !gone_ && theirs().reading.load(std::memory_order_seq_cst) != 0 &&
         !limit.passed())
    ::sched_yield();
  for (; !sends_.empty(); sends_.pop()) sends_.front().done->finish(why);
  for (; !receives_.empty(); receives_.pop()) receives_.front().completion()->finish(why);
  unwritten_ = 0;
  socket_.reset();  // which wakes the peer
}

void Link::stop(Code code, std::string text, std::string hint) {
  if (!faulty()) fault_ = {code, std::move(text), std::move(hint)};
}

}  // namespace rondel::shm
