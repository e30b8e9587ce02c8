// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "transports/verbs/device.h"

namespace rondel::verbs {
namespace {

// Credits and refusals always find room in the send queue; writes leave it to them.
constexpr std::size_t kRoomForMessages = kMaxPieces + 1;

}  // namespace

void Sender::post(const Work& work) {
  Outgoing& out = works_.push();
  out.slices.assign(work.local.begin(), work.local.end());
  out.slice = 0;
  out.slice_offset = 0;
  out.total_bytes = total_bytes(work.local);
  out.written_bytes = 0;
  if (!goes_eagerly(out.total_bytes)) {
    out.last_requests.fill(0);
    ++written_works_;
  }
  out.label = work.label;
  out.done = work.done;
}

void Sender::take_credit(const Message& message) {
  const auto expected = pieces_written_ + static_cast<std::uint32_t>(credits_.size());
  std::uint64_t bytes = 0;
  bool sound = message.header.piece == expected && credits_.room() > 0;
  for (std::uint32_t i = 0; i < message.header.ranges; ++i) {
    sound &= message.ranges[i].bytes > 0 && message.ranges[i].bytes <= message.header.bytes - bytes;
    bytes += message.ranges[i].bytes;
  }
  if (!sound || bytes == 0 || bytes != message.header.bytes)
    return fault_.set(Code::internal, fmt::format("credit {} can not be read where credit {} was due",
                                                  message.header.piece, expected));
  Credit& credit = credits_.push();
  credit.header = message.header;
  credit.ranges.assign(message.ranges, message.ranges + message.header.ranges);
  credit.range = 0;
  credit.range_offset = 0;
  credit.written_bytes = 0;
}

bool Sender::write() {
  while (works_sent_ < works_.size() && !refused_) {
    Outgoing& out = works_.at(works_sent_);
    const Step step = goes_eagerly(out.total_bytes) ? send_eagerly(out) : write_next_piece(out);
    if (step != Step::moved) return step == Step::waits;
  }
  return true;
}

// Compared by the peer. What it holds for a work that is not posted there yet is bounded by the window.
Sender::Step Sender::send_eagerly(const Outgoing& out) {
  if (!window_.has_room()) return Step::waits;
  if (requests_.room() <= kRoomForMessages) return Step::full;
  EagerHeader& header = buffers_.eager(window_.take());
  ++eager_sent_;
  header = {.kind = MessageKind::payload,
            .work = number_of_next(),
            .bytes = static_cast<std::uint32_t>(out.total_bytes),
            .returned = inbox_.tell(),
            .label = out.label};
  auto* to = reinterpret_cast<std::byte*>(&header + 1);
  for (const Slice& slice : out.slices)
    if (slice.bytes > 0) to = std::copy_n(slice.data(), slice.bytes, to);
  requests_.message(buffers_.slice_of(&header, sizeof header + out.total_bytes));
  last_eager_request_ = requests_.posted();
  if (asked_ == header.work) asked_.reset();  // numbers wrap
  ++works_sent_;
  return Step::moved;
}

Sender::Step Sender::write_next_piece(Outgoing& out) {
  if (asked_ == number_of_next()) {
    refuse(out);
    return Step::waits;
  }
  if (credits_.empty()) return Step::waits;
  Credit& credit = credits_.front();
  if (!matches(out, credit)) return Step::waits;
  if (!write_piece(out, credit)) return Step::full;
  credits_.pop();
  ++pieces_written_;
  if (out.written_bytes == out.total_bytes) ++works_sent_;
  return Step::moved;
}

// Both sides mean the same work, and the same place in it; before a byte leaves.
bool Sender::matches(const Outgoing& out, const Credit& credit) {
  if (credit.written_bytes > 0) return true;
  const auto ahead = static_cast<std::int32_t>(credit.header.work - number_of_next());
  if (ahead < 0) {
    refused_ = true;  // what went eagerly for that work is the peer's word of it
    return false;
  }
  // One that is ahead passes this work over: the peer expects it to come eagerly.
  if (ahead > 0 || credit.header.label != out.label || credit.header.work_bytes != out.total_bytes) {
    refuse(out);
    return false;
  }
  if (credit.header.offset == out.written_bytes && credit.header.bytes <= out.total_bytes - out.written_bytes)
    return true;
  fault_.set(Code::internal, fmt::format("it announces {} bytes at {} of a work of which {} are sent",
                                         credit.header.bytes, credit.header.offset, out.written_bytes));
  return false;
}

// The peer then fails, and this side learns of that by the loss of the link.
void Sender::refuse(const Outgoing& out) {
  refused_ = true;
  Message& message = buffers_.refusal();
  message.header = {.kind = MessageKind::refusal,
                    .work_bytes = out.total_bytes,
                    .label = out.label,
                    .work = number_of_next()};
  requests_.message(buffers_.slice_of(&message, sizeof(MessageHeader)));
}

// False when the send queue is full before the piece's end.
bool Sender::write_piece(Outgoing& out, Credit& credit) {
  const std::size_t index = queue_of(credit);
  do {
    if (queues_[index]->room() <= (index == 0 ? kRoomForMessages : 0)) return false;
    write_request(out, credit, index);
  } while (credit.written_bytes < credit.header.bytes);
  return true;
}

// One request: as much as lies together at the peer's side, is within this side's slices that one request
// takes, and is no longer than a message may be.
void Sender::write_request(Outgoing& out, Credit& credit, std::size_t index) {
  SendQueue& queue = *queues_[index];
  std::array<ibv_sge, kMaxSlices> from;
  const RemoteRange to = credit.ranges[credit.range];
  std::uint64_t bytes = 0;
  const std::size_t used =
      gather(out, std::min<std::uint64_t>(to.bytes - credit.range_offset, most_bytes_),
             std::span(from).first(std::min<std::size_t>(queue.most_slices(), from.size())), bytes);
  out.written_bytes += bytes;
  credit.written_bytes += bytes;
  const bool piece_done = credit.written_bytes == credit.header.bytes;
  const bool work_done = piece_done && out.written_bytes == out.total_bytes;
  // Of several queues each tells of its own part of the work.
  const bool awaited = queues_.size() == 1 ? work_done : piece_done;
  queue.write({from.data(), used}, to.address + credit.range_offset, to.key,
              piece_done ? std::optional(credit.header.piece) : std::nullopt, awaited);
  credit.range_offset += bytes;
  if (credit.range_offset == to.bytes) {
    ++credit.range;
    credit.range_offset = 0;
  }
  if (!piece_done) return;
  out.last_requests[index] = queue.posted();
  out.last_piece = credit.header.piece;
}

// The next runs of the work, up to `limit` bytes; returns how many.
std::size_t Sender::gather(Outgoing& out, std::uint64_t limit, std::span<ibv_sge> from,
                           std::uint64_t& bytes) const {
  std::size_t used = 0;
  while (bytes < limit && used < from.size()) {
    const Slice& slice = out.slices[out.slice];
    const std::uint64_t run = std::min<std::uint64_t>(limit - bytes, slice.bytes - out.slice_offset);
    if (run > 0)
      from[used++] = {.addr = reinterpret_cast<std::uintptr_t>(slice.data() + out.slice_offset),
                      .length = static_cast<std::uint32_t>(run),
                      .lkey = on_device(slice).local_key()};
    bytes += run;
    out.slice_offset += run;
    if (out.slice_offset == slice.bytes) {
      ++out.slice;
      out.slice_offset = 0;
    }
  }
  return used;
}

void Sender::finish_front() {
  const std::uint64_t bytes = works_.front().total_bytes;
  bytes_sent_ += bytes;
  works_.front().done->finish(Code::ok);
  works_.pop();
  ++works_finished_;
  --works_sent_;
  if (!goes_eagerly(bytes)) --written_works_;
}

std::size_t Sender::finish_done() {
  std::size_t finished = 0;
  for (; works_sent_ > 0 && is_done(works_.front()); ++finished) finish_front();
  return finished;
}

// What went eagerly was copied, and needs no completion of the device.
bool Sender::is_done(const Outgoing& out) const {
  if (goes_eagerly(out.total_bytes)) return true;
  for (std::size_t i = 0; i < queues_.size(); ++i)
    if (out.last_requests[i] > queues_[i]->completed()) return false;
  return true;
}

std::size_t Sender::finish_had(std::uint32_t pieces) {
  std::size_t finished = 0;
  // Numbers wrap; those in question lie close together.
  for (; works_sent_ > 0 && (goes_eagerly(works_.front().total_bytes) ||
                             static_cast<std::int32_t>(pieces - works_.front().last_piece) > 0);
       ++finished)
    finish_front();
  return finished;
}

void Sender::fail_all(Code why) {
  for (; !works_.empty(); works_.pop()) works_.front().done->finish(why);
  works_sent_ = written_works_ = 0;
}

}  // namespace rondel::verbs
