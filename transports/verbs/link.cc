// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/link.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "transports/verbs/diagnosis.h"
#include "transports/verbs/farewell.h"

namespace rondel::verbs {
namespace {

// Credits and refusals always find room in the send queue; writes leave it to them.
constexpr std::size_t kRoomForMessages = kMaxPieces + 1;

const VerbsRegistration& on_device(const Slice& slice) {
  return static_cast<const VerbsRegistration&>(*slice.region);
}

}  // namespace

Link::Link(std::shared_ptr<Device> device, QueuePair pair, MessageBuffers buffers, Rank peer,
           std::uint32_t mark)
    : device_(std::move(device)),
      peer_(peer),
      mark_(mark),
      buffers_(std::move(buffers)),
      pair_(std::move(pair)),
      requests_(device_->verbs(), pair_, mark) {}

Result<std::unique_ptr<Link>> Link::create(std::shared_ptr<Device> device, const CompletionQueues& queues,
                                           Rank peer, std::uint32_t mark) {
  auto buffers = MessageBuffers::create(device, mark);
  RONDEL_TRY(buffers);
  auto pair = QueuePair::create(device, queues);
  RONDEL_TRY(pair);
  if (const int error = buffers->post_all(device->verbs(), pair->get()); error != 0)
    return device_failure("posting receives", error);
  return std::unique_ptr<Link>(
      new Link(std::move(device), *std::move(pair), *std::move(buffers), peer, mark));
}

void Link::post(const Work& work) {
  if (work.verb == Verb::send) {
    Outgoing& out = sends_.push();
    out.slices.assign(work.local.begin(), work.local.end());
    out.slice = 0;
    out.slice_offset = 0;
    out.total_bytes = total_bytes(work.local);
    out.written_bytes = 0;
    out.all_written = false;
    out.label = work.label;
    out.done = work.done;
    return;
  }
  Incoming& in = receives_.push();
  in.sink.reset(work);
  in.slices.assign(work.local.begin(), work.local.end());
  in.announced_bytes = 0;
  in.all_announced = false;
}

void Link::pump() {
  if (faulty() || gone_ || !is_connected()) return;
  // First the receives: whatever leaves then may be answered at once.
  if (const int error = buffers_.flush(device_->verbs(), pair_.get()); error != 0)
    return stop(Code::io_error, fmt::format("posting receives: {}", std::system_category().message(error)));
  blocked_ = false;
  announce();
  write();
  requests_.flush();
  if (requests_.error() != 0)
    stop(Code::io_error,
         fmt::format("posting requests: {}", std::system_category().message(requests_.error())));
}

void Link::announce() {
  while (receives_announced_ < receives_.size() && !faulty()) {
    Incoming& in = receives_.at(receives_announced_);
    if (!announce_piece_of(in)) return;
    if (in.all_announced) ++receives_announced_;
  }
}

// False when there is no room for one more piece.
bool Link::announce_piece_of(Incoming& in) {
  if (pieces_.room() == 0 || refused_) return false;
  if (requests_.room() <= 1) {  // the last place is a refusal's
    blocked_ = true;
    return false;
  }
  const std::uint64_t left = in.sink.total_bytes() - in.announced_bytes;
  Piece piece{.bytes = left, .stage = {}};
  if (in.sink.folds() && left > 0) {
    if (!stages_.made()) {
      const Status made = stages_.make(device_);
      if (!made.ok()) {
        stop(made.code(), made.failure().cause, made.failure().hint);
        return false;
      }
    }
    if (!stages_.has_room()) return false;
    piece = {.bytes = std::min<std::uint64_t>(left, Stages::kBytes), .stage = stages_.take()};
  }
  send_credit(in, piece);
  pieces_.push() = piece;
  in.announced_bytes += piece.bytes;
  in.all_announced = in.announced_bytes == in.sink.total_bytes();
  return true;
}

void Link::send_credit(const Incoming& in, const Piece& piece) {
  const std::uint32_t number = pieces_announced_++;
  Message& message = buffers_.outgoing(number);
  message.header = {.kind = MessageKind::credit,
                    .piece = number,
                    .work_bytes = in.sink.total_bytes(),
                    .offset = in.announced_bytes,
                    .bytes = piece.bytes,
                    .label = in.sink.label()};
  std::uint32_t used = 0;
  if (piece.stage) {
    message.ranges[used++] = {reinterpret_cast<std::uintptr_t>(stages_.at(*piece.stage).data()), piece.bytes,
                              stages_.remote_key()};
  } else {
    for (const Slice& slice : in.slices)
      if (slice.bytes > 0)
        message.ranges[used++] = {reinterpret_cast<std::uintptr_t>(slice.data()), slice.bytes,
                                  on_device(slice).on_device().remote_key()};
  }
  message.header.ranges = used;
  requests_.message(buffers_.outgoing_slice(number, sizeof(MessageHeader) + used * sizeof(RemoteRange)));
}

void Link::write() {
  while (sends_written_ < sends_.size() && !credits_.empty() && !refused_ && !faulty()) {
    Outgoing& out = sends_.at(sends_written_);
    Credit& credit = credits_.front();
    if (!matches(out, credit)) return;
    if (!write_piece(out, credit)) {
      blocked_ = true;
      return;
    }
    credits_.pop();
    ++pieces_written_;
    if (out.all_written) ++sends_written_;
  }
}

// Both sides mean the same work, and the same place in it; before a byte leaves.
bool Link::matches(const Outgoing& out, const Credit& credit) {
  if (credit.written_bytes > 0) return true;
  if (credit.header.label != out.label || credit.header.work_bytes != out.total_bytes) {
    refuse(out, credit);
    return false;
  }
  if (credit.header.offset == out.written_bytes && credit.header.bytes <= out.total_bytes - out.written_bytes)
    return true;
  stop(Code::internal, fmt::format("it announces {} bytes at {} of a work of which {} are sent",
                                   credit.header.bytes, credit.header.offset, out.written_bytes));
  return false;
}

// The peer then fails, and this side learns of that by the loss of the link.
void Link::refuse(const Outgoing& out, const Credit& credit) {
  refused_ = true;
  Message& message = buffers_.outgoing(pieces_announced_);
  message.header = {.kind = MessageKind::refusal,
                    .piece = credit.header.piece,
                    .work_bytes = out.total_bytes,
                    .label = out.label};
  requests_.message(buffers_.outgoing_slice(pieces_announced_, sizeof(MessageHeader)));
}

// False when the send queue is full before the piece's end.
bool Link::write_piece(Outgoing& out, Credit& credit) {
  do {
    if (requests_.room() <= kRoomForMessages) return false;
    write_request(out, credit);
  } while (credit.written_bytes < credit.header.bytes);
  return true;
}

// One request: as much as lies together at the peer's side, is within this side's slices that one request
// takes, and is no longer than a message may be.
void Link::write_request(Outgoing& out, Credit& credit) {
  std::array<ibv_sge, kMaxSlices> from;
  std::size_t used = 0;
  std::uint64_t bytes = 0;
  const RemoteRange to = credit.header.bytes == 0 ? RemoteRange{} : credit.ranges[credit.range];
  const std::uint64_t limit =
      std::min<std::uint64_t>(to.bytes - credit.range_offset, device_->limits().message_bytes);
  const std::size_t most = std::min<std::size_t>(requests_.most_slices(), from.size());
  while (bytes < limit && used < most) {
    const Slice& slice = out.slices[out.slice];
    const std::uint64_t run = std::min<std::uint64_t>(limit - bytes, slice.bytes - out.slice_offset);
    if (run > 0)
      from[used++] = {.addr = reinterpret_cast<std::uintptr_t>(slice.data() + out.slice_offset),
                      .length = static_cast<std::uint32_t>(run),
                      .lkey = on_device(slice).on_device().local_key()};
    bytes += run;
    out.slice_offset += run;
    if (out.slice_offset == slice.bytes) {
      ++out.slice;
      out.slice_offset = 0;
    }
  }
  out.written_bytes += bytes;
  credit.written_bytes += bytes;
  const bool piece_done = credit.written_bytes == credit.header.bytes;
  const bool work_done = piece_done && out.written_bytes == out.total_bytes;
  requests_.write({from.data(), used}, to.address + credit.range_offset, to.key,
                  piece_done ? std::optional(credit.header.piece) : std::nullopt, work_done);
  credit.range_offset += bytes;
  if (credit.range_offset == to.bytes) {
    ++credit.range;
    credit.range_offset = 0;
  }
  if (!work_done) return;
  out.all_written = true;
  out.last_request = requests_.posted();
  out.last_piece = credit.header.piece;
}

std::size_t Link::arrived(const ibv_wc& completion) {
  if (faulty() || settled_) return 0;
  if (completion.status != IBV_WC_SUCCESS) {
    take_failure(completion.status);
    return 0;
  }
  const auto slot = static_cast<std::uint32_t>(completion.wr_id) % kReceiveDepth;
  std::size_t finished = 0;
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
    finished = take_piece(ntohl(completion.imm_data));
  else
    take_message(completion);
  buffers_.give_back(slot);
  return finished;
}

std::size_t Link::take_piece(std::uint32_t number) {
  if (pieces_.empty() || number != pieces_received_) {
    stop(Code::internal, fmt::format("it sends piece {} where piece {} was due", number, pieces_received_));
    return 0;
  }
  const Piece piece = pieces_.front();
  pieces_.pop();
  ++pieces_received_;
  Sink& sink = receives_.front().sink;
  if (piece.stage) {
    sink.take(stages_.at(*piece.stage).first(static_cast<std::size_t>(piece.bytes)));
    stages_.release();
  } else {
    sink.arrived_in_place(static_cast<std::size_t>(piece.bytes));
  }
  bytes_received_ += piece.bytes;
  if (!sink.complete()) return 0;
  sink.completion()->finish(Code::ok);
  receives_.pop();
  --receives_announced_;
  return 1;
}

void Link::take_message(const ibv_wc& completion) {
  const Message& message = buffers_.incoming(static_cast<std::uint32_t>(completion.wr_id) % kReceiveDepth);
  const MessageHeader& header = message.header;
  const bool whole = completion.byte_len >= sizeof header && header.ranges <= kMaxSlices &&
                     completion.byte_len == sizeof header + header.ranges * sizeof(RemoteRange);
  if (whole && header.kind == MessageKind::credit && credits_.room() > 0) return take_credit(message);
  if (whole && header.kind == MessageKind::refusal) return take_refusal(header);
  stop(Code::internal, fmt::format("a message of {} bytes can not be read", completion.byte_len));
}

void Link::take_credit(const Message& message) {
  const auto expected = pieces_written_ + static_cast<std::uint32_t>(credits_.size());
  std::uint64_t bytes = 0;
  bool sound = message.header.piece == expected;
  for (std::uint32_t i = 0; i < message.header.ranges; ++i) {
    sound &= message.ranges[i].bytes > 0 && message.ranges[i].bytes <= message.header.bytes - bytes;
    bytes += message.ranges[i].bytes;
  }
  if (!sound || bytes != message.header.bytes)
    return stop(Code::internal, fmt::format("credit {} can not be read where credit {} was due",
                                            message.header.piece, expected));
  Credit& credit = credits_.push();
  credit.header = message.header;
  credit.ranges.assign(message.ranges, message.ranges + message.header.ranges);
  credit.range = 0;
  credit.range_offset = 0;
  credit.written_bytes = 0;
}

void Link::take_refusal(const MessageHeader& header) {
  if (receives_.empty() || header.piece != pieces_received_)
    return stop(Code::internal,
                fmt::format("it refuses piece {} where piece {} was due", header.piece, pieces_received_));
  const Sink& sink = receives_.front().sink;
  mismatch_ = {peer_, sink.label(), header.label, sink.total_bytes(), header.work_bytes};
  stop(Code::mismatch,
       fmt::format("it sends {} bytes where this rank expects {}", header.work_bytes, sink.total_bytes()));
}

std::size_t Link::departed(const ibv_wc& completion) {
  if (faulty() || settled_) return 0;
  if (completion.status != IBV_WC_SUCCESS) {
    take_failure(completion.status);
    return 0;
  }
  requests_.take_completion(completion.wr_id);
  return finish_sends();
}

std::size_t Link::finish_sends() {
  std::size_t finished = 0;
  while (!sends_.empty() && sends_.front().all_written &&
         sends_.front().last_request <= requests_.completed()) {
    bytes_sent_ += sends_.front().total_bytes;
    sends_.front().done->finish(Code::ok);
    sends_.pop();
    --sends_written_;
    ++finished;
  }
  return finished;
}

// The first failure counts; those of the requests behind it only say that there was one.
void Link::take_failure(ibv_wc_status status) {
  if (is_flush(status)) {
    flushed_ = true;
    return;
  }
  if (peer_has_gone()) return;
  const Diagnosis diagnosis = diagnose(status);
  stop(diagnosis.code, diagnosis.cause, diagnosis.hint);
}

void Link::judge_flush() {
  if (!flushed_ || faulty() || settled_ || peer_has_gone()) return;
  const Diagnosis diagnosis = diagnose(IBV_WC_WR_FLUSH_ERR);
  stop(diagnosis.code, diagnosis.cause, diagnosis.hint);
}

bool Link::peer_has_gone() {
  if (gone_ || !socket_) return gone_;
  const auto word = hear_farewell(socket_.get());
  if (!word) return false;
  gone_ = true;
  why_gone_ = word->why;
  peer_has_had_ = word->pieces_received;
  return true;
}

std::size_t Link::settle_departure() {
  std::size_t finished = 0;
  if (!settled_) {
    settled_ = true;
    pair_.destroy();
    for (; !sends_.empty() && sends_.front().all_written &&
           static_cast<std::int32_t>(peer_has_had_ - sends_.front().last_piece) > 0;
         sends_.pop(), --sends_written_, ++finished) {
      bytes_sent_ += sends_.front().total_bytes;
      sends_.front().done->finish(Code::ok);
    }
  }
  if (has_works()) stop(Code::peer_lost, why_gone_);
  return finished;
}

void Link::stop(Code code, std::string text, std::string hint) {
  if (!faulty()) fault_ = {code, std::move(text), std::move(hint)};
}

void Link::close(Code why) {
  pair_.destroy();
  if (socket_ && !gone_) say_farewell(socket_.get(), pieces_received_);
  socket_.reset();
  gone_ = settled_ = true;
  for (; !sends_.empty(); sends_.pop()) sends_.front().done->finish(why);
  for (; !receives_.empty(); receives_.pop()) receives_.front().sink.completion()->finish(why);
}

}  // namespace rondel::verbs
