// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/link.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rondel::tcp {
namespace {

// One sendmsg: enough to keep the peer busy while we read, little enough to stay in the second-level cache.
constexpr std::size_t kSendBurstBytes = 128 * 1024;
constexpr std::size_t kReadBurstBytes = 128 * 1024;
constexpr std::size_t kMaxPieces = 64;

bool would_block(int error_number) { return error_number == EAGAIN || error_number == EWOULDBLOCK; }

// Appends the runs of the next `bytes` behind the cursor while there are pieces left; returns the bytes
// appended.
std::size_t add_pieces(SliceCursor cursor, std::size_t bytes, std::span<iovec> pieces, std::size_t& used) {
  std::size_t added = 0;
  while (added < bytes && used < pieces.size()) {
    const std::size_t run = std::min(bytes - added, cursor.run().size());
    pieces[used++] = {cursor.run().data(), run};
    cursor.advance(run);
    added += run;
  }
  return added;
}

}  // namespace

Link::Link(Rank peer, UniqueFd socket, std::span<std::byte> stage)
    : peer_(peer), socket_(PrivateFd(std::move(socket))), stage_(stage) {}

void Link::post(const Work& work) {
  if (work.verb != Verb::send) return receives_.push().reset(work);
  Outgoing& out = sends_.push();
  out.slices.assign(work.local.begin(), work.local.end());
  out.payload = SliceCursor(std::span<const Slice>(out.slices));
  out.missing_bytes = total_bytes(work.local);
  out.header = {kFrameMark, send_sequence_++, out.missing_bytes, work.label};
  out.header_sent = 0;
  out.done = work.done;
}

// Headers and payload of as many works as fit in one call; returns the number of pieces.
std::size_t Link::gather(std::span<iovec> pieces) const {
  std::size_t used = 0;
  std::size_t room = kSendBurstBytes;
  for (std::size_t i = 0; i < sends_.size() && room > 0 && used + 1 < pieces.size(); ++i) {
    const Outgoing& out = sends_.at(i);
    if (out.header_sent < kHeaderBytes) {
      auto* header = reinterpret_cast<std::byte*>(const_cast<FrameHeader*>(&out.header));
      pieces[used++] = {header + out.header_sent, kHeaderBytes - out.header_sent};
    }
    room -= add_pieces(out.payload, std::min<std::uint64_t>(room, out.missing_bytes), pieces, used);
  }
  return used;
}

// Moves the queue forward by what the kernel took; returns how many works that finished.
std::size_t Link::account_sent(std::size_t bytes) {
  std::size_t finished = 0;
  while (!sends_.empty()) {
    Outgoing& out = sends_.front();
    const std::size_t of_header = std::min(bytes, kHeaderBytes - out.header_sent);
    out.header_sent += of_header;
    bytes -= of_header;
    const auto of_payload = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, out.missing_bytes));
    advance(out.payload, of_payload);
    out.missing_bytes -= of_payload;
    bytes_sent_ += of_payload;
    bytes -= of_payload;
    if (out.header_sent < kHeaderBytes || out.missing_bytes > 0) break;
    out.done->finish(Code::ok);
    sends_.pop();
    ++finished;
  }
  return finished;
}

Turn Link::send_some() {
  std::array<iovec, kMaxPieces> pieces;
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = gather(pieces);
  const ssize_t sent = ::sendmsg(socket(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) {
    if (!would_block(errno) && errno != EINTR) stop(Code::peer_lost, errno);
    return {};
  }
  return {true, account_sent(static_cast<std::size_t>(sent))};
}

Turn Link::receive_some() {
  // One read a turn, so that sends and other links get theirs.
  Turn turn;
  if (accept_frames(turn) && read_more() > 0) {
    turn.moved = true;
    accept_frames(turn);
  }
  return turn;
}

bool Link::can_go_on_without_reading() const {
  if (receives_.empty()) return false;
  const std::size_t ahead = cache_end_ - cache_begin_;
  return faulty() || (in_payload_ ? ahead > 0 : ahead >= kHeaderBytes);
}

// Uses up what has been read; true when more bytes are needed to go on and nothing has finished yet.
bool Link::accept_frames(Turn& turn) {
  while (!receives_.empty() && !faulty()) {
    if (!in_payload_ && !accept_header()) return !faulty();
    feed_sink_from_cache();
    Sink& sink = receives_.front();
    if (!sink.complete()) return true;
    sink.completion()->finish(Code::ok);
    receives_.pop();
    in_payload_ = false;
    ++turn.finished;
    turn.moved = true;
  }
  return false;
}

// Checks the next header against the work it should belong to, before any of its payload is used.
bool Link::accept_header() {
  if (cache_end_ - cache_begin_ < kHeaderBytes) return false;
  FrameHeader header;
  std::memcpy(&header, cache_.data() + cache_begin_, kHeaderBytes);
  const Sink& sink = receives_.front();
  if (header.mark != kFrameMark || header.sequence != receive_sequence_) {
    stop(Code::internal, 0,
         fmt::format("the stream is out of step: frame {:#x}/{} where {:#x}/{} was due", header.mark,
                     header.sequence, kFrameMark, receive_sequence_));
    return false;
  }
  if (header.bytes != sink.total_bytes() || header.label != sink.label()) {
    mismatch_ = {peer_, sink.label(), header.label, sink.total_bytes(), header.bytes};
    stop(Code::mismatch, 0,
         fmt::format("it sends {} bytes where this rank expects {}", header.bytes, sink.total_bytes()));
    return false;
  }
  cache_begin_ += kHeaderBytes;
  ++receive_sequence_;
  in_payload_ = true;
  return true;
}

void Link::feed_sink_from_cache() {
  Sink& sink = receives_.front();
  const auto usable =
      static_cast<std::size_t>(std::min<std::uint64_t>(cache_end_ - cache_begin_, sink.missing_bytes()));
  if (usable == 0) return;
  sink.take({cache_.data() + cache_begin_, usable});
  cache_begin_ += usable;
  bytes_received_ += usable;
}

// One recvmsg: the rest of the payload where it belongs, then the next header into the cache. Returns bytes
// read.
std::size_t Link::read_more() {
  if (cache_begin_ > 0) {
    std::memmove(cache_.data(), cache_.data() + cache_begin_, cache_end_ - cache_begin_);
    cache_end_ -= cache_begin_;
    cache_begin_ = 0;
  }
  std::array<iovec, kMaxPieces> pieces;
  std::size_t used = 0;
  std::size_t for_payload = 0;
  bool whole = true;
  Sink& sink = receives_.front();
  if (in_payload_) {
    const std::size_t limit = sink.folds() ? stage_.size() : kReadBurstBytes;
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(limit, sink.missing_bytes()));
    if (sink.folds()) {
      pieces[used++] = {stage_.data(), wanted};
      for_payload = wanted;
    } else {
      for_payload = add_pieces(sink.destination(), wanted, std::span(pieces).first(kMaxPieces - 1), used);
    }
    whole = for_payload == sink.missing_bytes();
  }
  if (whole) pieces[used++] = {cache_.data() + cache_end_, cache_.size() - cache_end_};

  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = used;
  const ssize_t got = ::recvmsg(socket(), &message, MSG_DONTWAIT);
  if (got <= 0) {
    if (got == 0)
      stop(Code::peer_lost, 0, "it closed the connection");
    else if (!would_block(errno) && errno != EINTR)
      stop(Code::peer_lost, errno);
    return 0;
  }
  const auto bytes = static_cast<std::size_t>(got);
  const std::size_t of_payload = std::min(bytes, for_payload);
  if (sink.folds() && of_payload > 0)
    sink.take({stage_.data(), of_payload});
  else if (of_payload > 0)
    sink.arrived_in_place(of_payload);
  bytes_received_ += of_payload;
  cache_end_ += bytes - of_payload;
  return bytes;
}

void Link::stop(Code code, int error_number, std::string text) {
  if (!faulty()) fault_ = {code, error_number, std::move(text)};
}

std::size_t Link::fail_all(Code why) {
  std::size_t finished = 0;
  for (; !sends_.empty(); sends_.pop(), ++finished) sends_.front().done->finish(why);
  for (; !receives_.empty(); receives_.pop(), ++finished) receives_.front().completion()->finish(why);
  socket_.reset();
  return finished;
}

}  // namespace rondel::tcp
