// SPDX-License-Identifier: Apache-2.0
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/check.h"
#include "tests/support/fake_verbs_fabric.h"

namespace rondel::test::fake {

void complete(ibv_cq* base, const Entry& entry) {
  auto* const queue = static_cast<Queue*>(base);
  check(static_cast<int>(queue->entries.size()) < queue->cqe, "a completion queue does not overflow");
  queue->entries.push_back(entry);
  if (!std::exchange(queue->armed, false)) return;
  static_cast<Channel*>(queue->channel)->events.push_back(queue);
  ::eventfd_write(queue->channel->fd, 1);
}

Entry entry_of(const Pair& pair, std::uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode) {
  Entry entry;
  entry.completion.wr_id = id;
  entry.completion.status = status;
  entry.completion.opcode = opcode;
  entry.completion.qp_num = pair.qp_num;
  return entry;
}

void break_pair(Pair& pair) {
  pair.state = IBV_QPS_ERR;
  for (const Receive& receive : std::exchange(pair.receives, {}))
    complete(pair.recv_cq, entry_of(pair, receive.id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV));
}

int post_recv(ibv_qp* base, ibv_recv_wr* list, ibv_recv_wr** bad) {
  const std::scoped_lock lock(fabric().mutex);
  auto* const pair = static_cast<Pair*>(base);
  ++fabric().counts.receive_doorbells;
  for (; list != nullptr; list = list->next) {
    *bad = list;
    ++fabric().counts.receives;
    if (pair->receives.size() >= pair->limits.max_recv_wr) return ENOMEM;
    if (pair->state == IBV_QPS_RESET || list->num_sge > 1) return EINVAL;
    if (pair->state == IBV_QPS_ERR)
      complete(pair->recv_cq, entry_of(*pair, list->wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV));
    else
      pair->receives.push_back({list->wr_id, list->num_sge > 0 ? *list->sg_list : ibv_sge{}});
  }
  return 0;
}

namespace {

bool reachable(const Pair& pair, std::uint32_t key, std::uint64_t address, std::uint64_t bytes, int access) {
  const auto found = fabric().regions.find(key);
  if (found == fabric().regions.end() || found->second->pd != pair.pd) return false;
  const Region& region = *found->second;
  const auto first = reinterpret_cast<std::uintptr_t>(region.addr);
  return (region.access & access) == access && address >= first && address - first <= region.length &&
         bytes <= region.length - (address - first);
}

std::byte* memory_at(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

// Copies the request's slices to `to`; false when one may not be read.
bool gather(const Pair& pair, const ibv_send_wr& request, std::byte* to) {
  const bool inlined = (request.send_flags & IBV_SEND_INLINE) != 0;
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& slice = request.sg_list[i];
    if (!inlined && !reachable(pair, slice.lkey, slice.addr, slice.length, 0)) return false;
    if (to != nullptr) to = std::copy_n(memory_at(slice.addr), slice.length, to);
  }
  return true;
}

std::uint64_t bytes_of(const ibv_send_wr& request) {
  std::uint64_t bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) bytes += request.sg_list[i].length;
  return bytes;
}

// The pair at the other end, when packets of so many bytes get there.
Pair* peer_of(const Pair& pair, std::uint64_t bytes) {
  const auto found = fabric().pairs.find(pair.peer);
  if (found == fabric().pairs.end() || found->second->peer != pair.qp_num) return nullptr;
  Pair* const peer = found->second;
  if (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS) return nullptr;
  if (pair.device().cut || peer->device().cut) return nullptr;
  const std::uint64_t smaller = 128U << std::min(pair.mtu, peer->mtu);
  if (std::min(bytes, smaller) > fabric().most_packet_bytes.value_or(smaller)) return nullptr;
  return pair.mtu != peer->mtu && bytes > smaller ? nullptr : peer;
}

ibv_wc_status deliver_message(Pair& pair, Pair& peer, const ibv_send_wr& request, std::uint64_t bytes) {
  if (peer.receives.empty()) return IBV_WC_RNR_RETRY_EXC_ERR;
  const Receive receive = peer.receives.front();
  peer.receives.pop_front();
  const bool written = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  Entry entry = entry_of(peer, receive.id, IBV_WC_SUCCESS, written ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
  entry.completion.byte_len = static_cast<std::uint32_t>(bytes);
  entry.completion.imm_data = request.imm_data;
  if (written) entry.completion.wc_flags = IBV_WC_WITH_IMM;
  if (!written && bytes > receive.slice.length) {
    entry.completion.status = IBV_WC_LOC_LEN_ERR;
    complete(peer.recv_cq, entry);
    break_pair(peer);
    return IBV_WC_REM_INV_REQ_ERR;
  }
  if (!written && !reachable(peer, receive.slice.lkey, receive.slice.addr, bytes, IBV_ACCESS_LOCAL_WRITE))
    return IBV_WC_REM_OP_ERR;
  if (!written) gather(pair, request, memory_at(receive.slice.addr));
  complete(peer.recv_cq, entry);
  return IBV_WC_SUCCESS;
}

ibv_wc_status execute(Pair& pair, const ibv_send_wr& request) {
  if (const auto status = std::exchange(fabric().next_status, std::nullopt)) return *status;
  const std::uint64_t bytes = bytes_of(request);
  if (!gather(pair, request, nullptr)) return IBV_WC_LOC_PROT_ERR;
  if (bytes > pair.device().facts.max_message_bytes) return IBV_WC_LOC_LEN_ERR;
  Pair* const peer = peer_of(pair, bytes);
  if (peer == nullptr) return IBV_WC_RETRY_EXC_ERR;
  if (request.opcode == IBV_WR_SEND) return deliver_message(pair, *peer, request, bytes);
  if (bytes > 0) {
    if (!reachable(*peer, request.wr.rdma.rkey, request.wr.rdma.remote_addr, bytes,
                   IBV_ACCESS_REMOTE_WRITE)) {
      break_pair(*peer);
      return IBV_WC_REM_ACCESS_ERR;
    }
    if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && peer->receives.empty())
      return IBV_WC_RNR_RETRY_EXC_ERR;
    gather(pair, request, memory_at(request.wr.rdma.remote_addr));
    fabric().counts.written_bytes += bytes;
  }
  return request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? deliver_message(pair, *peer, request, bytes)
                                                      : IBV_WC_SUCCESS;
}

int post_one(Pair& pair, const ibv_send_wr& request) {
  const bool signalled = (request.send_flags & IBV_SEND_SIGNALED) != 0;
  const bool inlined = (request.send_flags & IBV_SEND_INLINE) != 0;
  if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) return EINVAL;
  if (pair.outstanding >= pair.limits.max_send_wr) return ENOMEM;
  if (request.num_sge > static_cast<int>(pair.limits.max_send_sge)) return EINVAL;
  if (inlined && bytes_of(request) > pair.limits.max_inline_data) return EINVAL;
  ++fabric().counts.requests;
  if (signalled) ++fabric().counts.signalled;
  if (inlined) ++fabric().counts.inlined;
  ++pair.outstanding;
  ++pair.unreported;
  const ibv_wc_status status = pair.state == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : execute(pair, request);
  if (status != IBV_WC_SUCCESS && pair.state != IBV_QPS_ERR) break_pair(pair);
  if (status == IBV_WC_SUCCESS && (!signalled || fabric().withholds)) return 0;
  Entry entry = entry_of(pair, request.wr_id, status, IBV_WC_RDMA_WRITE);
  entry.pair = &pair;
  entry.covers = std::exchange(pair.unreported, 0);
  complete(pair.send_cq, entry);
  return 0;
}

}  // namespace

int post_send(ibv_qp* base, ibv_send_wr* list, ibv_send_wr** bad) {
  const std::scoped_lock lock(fabric().mutex);
  ++fabric().counts.doorbells;
  for (; list != nullptr; list = list->next) {
    *bad = list;
    if (const int error = post_one(static_cast<Pair&>(*base), *list); error != 0) return error;
  }
  return 0;
}

}  // namespace rondel::test::fake
