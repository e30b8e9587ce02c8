// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/receiver.h"

#include <fmt/format.h>

#include <algorithm>

#include "transports/verbs/device.h"

namespace rondel::verbs {

void Receiver::post(const Work& work) {
  Incoming& in = works_.push();
  in.sink.reset(work);
  in.slices.assign(work.local.begin(), work.local.end());
  in.announced_bytes = 0;
  in.all_announced = false;
}

bool Receiver::announce() {
  while (works_announced_ < works_.size() && pieces_.room() > 0 && !fault_.is_set()) {
    if (requests_.room() <= 1) return false;  // the last place is a refusal's
    Incoming& in = works_.at(works_announced_);
    if (goes_eagerly(in.sink.total_bytes())) {
      ++works_announced_;
      continue;
    }
    const auto piece = next_piece_of(in);
    if (!piece) return true;
    send_credit(in, *piece);
    pieces_.push() = *piece;
    in.announced_bytes += piece->bytes;
    in.all_announced = in.announced_bytes == in.sink.total_bytes();
    if (in.all_announced) ++works_announced_;
  }
  return true;
}

// None while all stages are in use.
std::optional<Receiver::Piece> Receiver::next_piece_of(const Incoming& in) {
  const std::uint64_t left = in.sink.total_bytes() - in.announced_bytes;
  if (!in.sink.folds()) return Piece{.bytes = left, .stage = {}};
  if (!stages_.made()) {
    const Status made = stages_.make(device_);
    if (!made.ok()) {
      fault_.set_local(made.code(), made.failure().cause, made.failure().hint);
      return std::nullopt;
    }
  }
  if (!stages_.has_room()) return std::nullopt;
  return Piece{.bytes = std::min<std::uint64_t>(left, Stages::kBytes), .stage = stages_.take()};
}

void Receiver::send_credit(const Incoming& in, const Piece& piece) {
  const std::uint32_t number = pieces_announced_++;
  Message& message = buffers_.credit(number);
  message.header = {.kind = MessageKind::credit,
                    .piece = number,
                    .work_bytes = in.sink.total_bytes(),
                    .offset = in.announced_bytes,
                    .bytes = piece.bytes,
                    .label = in.sink.label(),
                    .work = number_of(works_announced_),
                    .returned = inbox_.tell()};
  std::uint32_t used = 0;
  if (piece.stage) {
    message.ranges[used++] = {reinterpret_cast<std::uintptr_t>(stages_.at(*piece.stage).data()), piece.bytes,
                              stages_.remote_key()};
  } else {
    for (const Slice& slice : in.slices)
      if (slice.bytes > 0)
        message.ranges[used++] = {reinterpret_cast<std::uintptr_t>(slice.data()), slice.bytes,
                                  on_device(slice).remote_key()};
  }
  message.header.ranges = used;
  requests_.message(buffers_.slice_of(&message, sizeof(MessageHeader) + used * sizeof(RemoteRange)));
}

std::size_t Receiver::take_piece(std::uint32_t number) {
  const std::uint32_t ahead = number - pieces_received_;
  if (ahead >= pieces_.size() || is_here(number) || (!striped_ && (ahead > 0 || due_eagerly()))) {
    fault_.set(Code::internal,
               fmt::format("it sends piece {} where piece {} was due", number, pieces_received_));
    return 0;
  }
  here_ |= 1U << number % kMaxPieces;
  return striped_ ? take_held() : take_pieces();
}

// Those that are due and here, up to a work that comes eagerly.
std::size_t Receiver::take_pieces() {
  std::size_t finished = 0;
  while (!pieces_.empty() && is_here(pieces_received_) && !due_eagerly())
    finished += take_due_piece() ? 1 : 0;
  return finished;
}

// Whether that was its work's last.
bool Receiver::take_due_piece() {
  const Piece piece = pieces_.front();
  pieces_.pop();
  here_ &= ~(1U << pieces_received_ % kMaxPieces);
  ++pieces_received_;
  bytes_received_ += piece.bytes;
  Sink& sink = works_.front().sink;
  if (piece.stage) {
    sink.take(stages_.at(*piece.stage).first(static_cast<std::size_t>(piece.bytes)));
    stages_.release();
    bytes_staged_ += piece.bytes;
  } else {
    sink.arrived_in_place(static_cast<std::size_t>(piece.bytes));
  }
  if (!sink.complete()) return false;
  finish_front();
  return true;
}

bool Receiver::tell_returned() {
  if (!inbox_.must_tell()) return true;
  if (requests_.room() <= 1) return false;
  EagerHeader& header = buffers_.returns(returns_++);
  header = {.kind = MessageKind::returned, .returned = inbox_.tell()};
  requests_.message(buffers_.slice_of(&header, sizeof header));
  return true;
}

void Receiver::hold(std::uint32_t slot) {
  if (inbox_.full()) return fault_.set(Code::internal, "it sends more messages than this rank has room for");
  inbox_.hold(slot);
}

std::size_t Receiver::take_held() {
  std::size_t finished = striped_ ? take_pieces() : 0;
  while (can_take() && !fault_.is_set()) {
    const std::uint32_t slot = inbox_.front();
    if (!take_message(buffers_.incoming_eager(slot), buffers_.payload_in(slot))) break;
    inbox_.pop();
    buffers_.give_back(slot);
    finished += striped_ ? 1 + take_pieces() : 1;
  }
  if (refusal_ && refusal_->work == works_finished_ && !fault_.is_set()) take_refusal(*refusal_);
  return finished;
}

// For a work behind one whose pieces another queue pair still carries.
bool Receiver::comes_too_early() const {
  return !due_eagerly() && buffers_.incoming_eager(inbox_.front()).work != works_finished_;
}

// False when it is not the work that is due; before a byte is written.
bool Receiver::take_message(const EagerHeader& header, std::span<const std::byte> payload) {
  Sink& sink = works_.front().sink;
  if (header.work != works_finished_) {
    fault_.set(Code::internal,
               fmt::format("it sends work {} where work {} was due", header.work, works_finished_));
    return false;
  }
  if (header.label != sink.label() || payload.size() != sink.total_bytes()) {
    fail_by_mismatch(header.label, payload.size());
    return false;
  }
  bytes_received_ += payload.size();
  bytes_staged_ += payload.size();
  if (!payload.empty()) sink.take(payload);
  finish_front();
  return true;
}

void Receiver::finish_front() {
  works_.front().sink.completion()->finish(Code::ok);
  works_.pop();
  ++works_finished_;
  if (works_announced_ > 0) --works_announced_;
}

std::optional<std::uint32_t> Receiver::due_eagerly() const {
  if (works_.empty() || !goes_eagerly(works_.front().sink.total_bytes())) return std::nullopt;
  return works_finished_;
}

void Receiver::take_refusal(const MessageHeader& header) {
  if (striped_ && static_cast<std::int32_t>(header.work - works_finished_) > 0) {
    refusal_ = header;
    return;
  }
  if (works_.empty() || header.work != works_finished_)
    return fault_.set(Code::internal,
                      fmt::format("it refuses work {} where work {} was due", header.work, works_finished_));
  fail_by_mismatch(header.label, header.work_bytes);
}

void Receiver::fail_by_mismatch(const Label& theirs, std::uint64_t their_bytes) {
  const Sink& sink = works_.front().sink;
  fault_.set(Code::mismatch,
             fmt::format("it sends {} bytes where this rank expects {}", their_bytes, sink.total_bytes()));
  mismatch_ = {peer_, sink.label(), theirs, sink.total_bytes(), their_bytes};
}

void Receiver::fail_all(Code why) {
  for (; !works_.empty(); works_.pop()) works_.front().sink.completion()->finish(why);
  works_announced_ = 0;
}

}  // namespace rondel::verbs
