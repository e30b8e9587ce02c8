// SPDX-License-Identifier: Apache-2.0
// What FakeVerbs is made of: devices, memory regions, queues and queue pairs as libibverbs' own structs with
// what a device would know beside them. For fake_verbs*.cc only; whoever touches it holds the fabric's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/fake_verbs.h"

namespace rondel::test::fake {

struct Device : ibv_device {
  FakeDevice facts;
  bool cut = false;
};
struct Context : ibv_context {
  std::deque<ibv_async_event> events;
};
struct Region : ibv_mr {
  int access = 0;
};
struct Queue;
struct Channel : ibv_comp_channel {
  std::deque<Queue*> events;
};
struct Entry {
  ibv_wc completion{};
  struct Pair* pair = nullptr;
  std::uint32_t covers = 0;  // requests whose room this completion gives back
};
struct Queue : ibv_cq {
  std::deque<Entry> entries;
  bool armed = false;
  std::uint32_t unacknowledged = 0;
};
struct Receive {
  std::uint64_t id = 0;
  ibv_sge slice{};
};
struct Pair : ibv_qp {
  ibv_qp_cap limits{};
  std::deque<Receive> receives;
  std::uint32_t peer = 0;
  ibv_mtu mtu = IBV_MTU_256;
  std::uint32_t outstanding = 0;  // requests whose room is taken
  std::uint32_t unreported = 0;   // of them, since the last completion
  Device& device() const { return static_cast<Device&>(*context->device); }
};

/// Everything there is. One lock: what one thread posts changes what another polls.
struct Fabric {
  std::mutex mutex;
  bool in_use = false;
  bool withholds = false;
  bool queues_broken = false;
  std::optional<std::size_t> most_regions;
  std::optional<std::size_t> most_packet_bytes;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Context*> contexts;
  std::map<std::uint32_t, Region*> regions;  // by key
  std::map<std::uint32_t, Pair*> pairs;      // by number
  std::map<FakeCall, int> failing;
  std::optional<ibv_wc_status> next_status;
  std::optional<std::minstd_rand> shuffler;
  std::uint32_t last_key = 0x1000;
  std::uint32_t last_number = 0x10;
  std::size_t objects = 0;
  FakeCounts counts;
  FakePath path;
};

Fabric& fabric();

Entry entry_of(const Pair& pair, std::uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode);
/// Queues a completion, and an event when the queue is armed.
void complete(ibv_cq* queue, const Entry& entry);
/// What was posted and not used comes back; nothing goes any more.
void break_pair(Pair& pair);

// Parts of the table that take the lock themselves.
int post_recv(ibv_qp* base, ibv_recv_wr* list, ibv_recv_wr** bad);
int post_send(ibv_qp* base, ibv_send_wr* list, ibv_send_wr** bad);

}  // namespace rondel::test::fake
