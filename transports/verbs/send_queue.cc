// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/send_queue.h"

#include <arpa/inet.h>

#include <algorithm>

#include "lib/check.h"

namespace rondel::verbs {

SendQueue::SendQueue(const VerbsLibrary& verbs, const QueuePair& pair, std::uint32_t mark,
                     std::uint32_t index)
    : verbs_(verbs),
      pair_(pair.get()),
      depth_(pair.depth()),
      mark_(std::uint64_t{mark} << 32 | std::uint64_t{index} << kNumberBits) {}

ibv_send_wr& SendQueue::add(std::span<const ibv_sge> from) {
  if (listed_ == kListLength || slices_used_ + from.size() > kSlicePool) flush();
  check(room() > 0 && from.size() <= depth_.slices, "a send request has room");
  ibv_sge* const first = slices_.data() + slices_used_;
  std::size_t bytes = 0;
  for (const ibv_sge& slice : from) {
    slices_[slices_used_++] = slice;
    bytes += slice.length;
  }
  ibv_send_wr& request = list_[listed_++];
  request = {};
  request.wr_id = mark_ | (++posted_ & kNumberMask);
  request.sg_list = from.empty() ? nullptr : first;
  request.num_sge = static_cast<int>(from.size());
  if (bytes > 0 && bytes <= depth_.inline_bytes) request.send_flags = IBV_SEND_INLINE;
  if (++unsignalled_ == kSignalEvery) {
    request.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  return request;
}

void SendQueue::message(const ibv_sge& from) { add({&from, 1}).opcode = IBV_WR_SEND; }

void SendQueue::write(std::span<const ibv_sge> from, std::uint64_t to, std::uint32_t key,
                      std::optional<std::uint32_t> immediate, bool awaited) {
  ibv_send_wr& request = add(from);
  request.opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  request.imm_data = htonl(immediate.value_or(0));
  request.wr.rdma.remote_addr = to;
  request.wr.rdma.rkey = key;
  if (awaited) awaited_ = listed_ - 1;
}

void SendQueue::flush() {
  if (listed_ == 0) return;
  if (awaited_) {
    list_[*awaited_].send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = static_cast<std::uint32_t>(std::min<std::size_t>(unsignalled_, listed_ - 1 - *awaited_));
  }
  for (std::size_t i = 0; i + 1 < listed_; ++i) list_[i].next = &list_[i + 1];
  for (std::size_t i = 0; i < listed_; ++i)
    signalled_ += (list_[i].send_flags & IBV_SEND_SIGNALED) != 0 ? 1 : 0;
  ++doorbells_;
  list_[listed_ - 1].next = nullptr;
  ibv_send_wr* bad = nullptr;
  const int error = error_ == 0 ? verbs_.post_send(pair_, list_.data(), &bad) : 0;
  if (error != 0) error_ = error;
  listed_ = 0;
  slices_used_ = 0;
  awaited_.reset();
}

void SendQueue::take_completion(std::uint64_t number) {
  const std::uint64_t ahead = (number - completed_) & kNumberMask;
  if (ahead <= posted_ - completed_) completed_ += ahead;
}

}  // namespace rondel::verbs
