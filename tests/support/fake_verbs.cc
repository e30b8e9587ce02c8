// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_verbs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "lib/check.h"

namespace rondel::test {
namespace {

struct Device : ibv_device {
  FakeDevice facts;
  bool cut = false;
};
struct Context : ibv_context {};
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
  std::vector<std::unique_ptr<Device>> devices;
  std::map<std::uint32_t, Region*> regions;  // by key
  std::map<std::uint32_t, Pair*> pairs;      // by number
  std::map<FakeCall, int> failing;
  std::optional<ibv_wc_status> next_status;
  std::uint32_t last_key = 0x1000;
  std::uint32_t last_number = 0x10;
  std::size_t objects = 0;
  FakeCounts counts;
  FakePath path;
};

Fabric& fabric() {
  static Fabric the_fabric;
  return the_fabric;
}

// True, with errno set, when the call is to fail.
bool fails(FakeCall call) {
  const auto found = fabric().failing.find(call);
  if (found == fabric().failing.end()) return false;
  errno = found->second;
  return true;
}

template <class Object>
Object* made(Object* object) {
  ++fabric().objects;
  return object;
}

template <class Object, class Base>
int destroyed(Base* object) {
  delete static_cast<Object*>(object);
  --fabric().objects;
  return 0;
}

ibv_device** get_device_list(int* count) {
  const std::scoped_lock lock(fabric().mutex);
  auto** const list = new ibv_device*[fabric().devices.size() + 1];
  std::transform(fabric().devices.begin(), fabric().devices.end(), list,
                 [](const auto& device) { return device.get(); });
  list[fabric().devices.size()] = nullptr;
  *count = static_cast<int>(fabric().devices.size());
  return list;
}

void free_device_list(ibv_device** list) { delete[] list; }
const char* get_device_name(ibv_device* device) { return static_cast<Device*>(device)->facts.name.c_str(); }

ibv_context* open_device(ibv_device* device) {
  const std::scoped_lock lock(fabric().mutex);
  if (fails(FakeCall::open_device)) return nullptr;
  auto* const context = made(new Context{});
  context->device = device;
  return context;
}

int close_device(ibv_context* context) {
  const std::scoped_lock lock(fabric().mutex);
  return destroyed<Context>(context);
}

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_sge = static_cast<Device*>(context->device)->facts.max_sge;
  attributes->max_qp_wr = 1024;
  attributes->max_cqe = 1 << 16;
  return 0;
}

int query_port(ibv_context* context, std::uint8_t, ibv_port_attr* attributes) {
  const FakeDevice& facts = static_cast<Device*>(context->device)->facts;
  *attributes = {};
  attributes->state = facts.state;
  attributes->link_layer = facts.link_layer;
  attributes->lid = facts.lid;
  attributes->active_mtu = facts.mtu;
  attributes->max_msg_sz = facts.max_message_bytes;
  attributes->active_width = 2;   // 4 lanes
  attributes->active_speed = 32;  // of 25 Gbit/s
  attributes->gid_tbl_len = 8;
  return 0;
}

int query_gid(ibv_context* context, std::uint32_t, std::uint32_t index, ibv_gid_entry* entry, std::uint32_t,
              std::size_t) {
  const FakeDevice& facts = static_cast<Device*>(context->device)->facts;
  if (index >= facts.gids.size()) return ENODATA;
  *entry = {};
  entry->gid_index = index;
  entry->gid_type = facts.gids[index].type;
  const std::uint8_t address[16] = {0, 0, 0,    0,    0,  0, 0, 0,
                                    0, 0, 0xff, 0xff, 10, 9, 0, facts.gids[index].last_byte};
  std::memcpy(entry->gid.raw, address, sizeof address);
  return 0;
}

ibv_pd* alloc_pd(ibv_context* context) {
  const std::scoped_lock lock(fabric().mutex);
  if (fails(FakeCall::alloc_pd)) return nullptr;
  auto* const domain = made(new ibv_pd{});
  domain->context = context;
  return domain;
}

int dealloc_pd(ibv_pd* domain) {
  const std::scoped_lock lock(fabric().mutex);
  return destroyed<ibv_pd>(domain);
}

ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) {
  const std::scoped_lock lock(fabric().mutex);
  if (fails(FakeCall::reg_mr)) return nullptr;
  auto* const region = made(new Region{});
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = bytes;
  region->access = access;
  region->lkey = region->rkey = ++fabric().last_key;
  fabric().regions[region->lkey] = region;
  return region;
}

int dereg_mr(ibv_mr* region) {
  const std::scoped_lock lock(fabric().mutex);
  fabric().regions.erase(region->lkey);
  return destroyed<Region>(region);
}

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  const std::scoped_lock lock(fabric().mutex);
  if (fails(FakeCall::create_comp_channel)) return nullptr;
  auto* const channel = made(new Channel{});
  channel->context = context;
  channel->fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  return channel;
}

int destroy_comp_channel(ibv_comp_channel* channel) {
  const std::scoped_lock lock(fabric().mutex);
  ::close(channel->fd);
  return destroyed<Channel>(channel);
}

ibv_cq* create_cq(ibv_context* context, int entries, void* mine, ibv_comp_channel* channel, int) {
  const std::scoped_lock lock(fabric().mutex);
  if (fails(FakeCall::create_cq)) return nullptr;
  auto* const queue = made(new Queue{});
  queue->context = context;
  queue->channel = channel;
  queue->cq_context = mine;
  queue->cqe = entries;
  return queue;
}

int destroy_cq(ibv_cq* base) {
  const std::scoped_lock lock(fabric().mutex);
  auto* const queue = static_cast<Queue*>(base);
  check(queue->unacknowledged == 0, "all events of a completion queue are acknowledged before its end");
  std::erase(static_cast<Channel*>(queue->channel)->events, queue);
  return destroyed<Queue>(base);
}

int get_cq_event(ibv_comp_channel* base, ibv_cq** queue, void** mine) {
  eventfd_t one = 0;
  if (::eventfd_read(base->fd, &one) != 0) return -1;
  const std::scoped_lock lock(fabric().mutex);
  auto* const channel = static_cast<Channel*>(base);
  if (channel->events.empty()) return -1;
  ++channel->events.front()->unacknowledged;
  *queue = channel->events.front();
  *mine = (*queue)->cq_context;
  channel->events.pop_front();
  return 0;
}

void ack_cq_events(ibv_cq* queue, unsigned events) {
  const std::scoped_lock lock(fabric().mutex);
  static_cast<Queue*>(queue)->unacknowledged -= events;
}

int req_notify_cq(ibv_cq* queue, int) {
  const std::scoped_lock lock(fabric().mutex);
  static_cast<Queue*>(queue)->armed = true;
  return 0;
}

void complete(ibv_cq* base, const Entry& entry) {
  auto* const queue = static_cast<Queue*>(base);
  check(static_cast<int>(queue->entries.size()) < queue->cqe, "a completion queue does not overflow");
  queue->entries.push_back(entry);
  if (!std::exchange(queue->armed, false)) return;
  static_cast<Channel*>(queue->channel)->events.push_back(queue);
  ::eventfd_write(queue->channel->fd, 1);
}

int poll_cq(ibv_cq* base, int most, ibv_wc* completions) {
  const std::scoped_lock lock(fabric().mutex);
  auto* const queue = static_cast<Queue*>(base);
  int taken = 0;
  for (; taken < most && !queue->entries.empty(); ++taken) {
    const Entry& entry = queue->entries.front();
    if (entry.pair != nullptr) entry.pair->outstanding -= entry.covers;
    completions[taken] = entry.completion;
    queue->entries.pop_front();
  }
  return taken;
}

ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  const std::scoped_lock lock(fabric().mutex);
  if (fails(FakeCall::create_qp)) return nullptr;
  auto* const pair = made(new Pair{});
  pair->context = domain->context;
  pair->pd = domain;
  pair->send_cq = attributes->send_cq;
  pair->recv_cq = attributes->recv_cq;
  pair->qp_num = ++fabric().last_number;
  pair->state = IBV_QPS_RESET;
  pair->limits = attributes->cap;
  fabric().pairs[pair->qp_num] = pair;
  return pair;
}

int destroy_qp(ibv_qp* base) {
  const std::scoped_lock lock(fabric().mutex);
  auto* const pair = static_cast<Pair*>(base);
  for (ibv_cq* const queue : {pair->send_cq, pair->recv_cq})
    std::erase_if(static_cast<Queue*>(queue)->entries,
                  [pair](const Entry& entry) { return entry.completion.qp_num == pair->qp_num; });
  fabric().pairs.erase(pair->qp_num);
  return destroyed<Pair>(base);
}

Entry entry_of(Pair& pair, std::uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode) {
  Entry entry;
  entry.completion.wr_id = id;
  entry.completion.status = status;
  entry.completion.opcode = opcode;
  entry.completion.qp_num = pair.qp_num;
  return entry;
}

// What was posted and not used comes back; nothing goes any more.
void break_pair(Pair& pair) {
  pair.state = IBV_QPS_ERR;
  for (const Receive& receive : std::exchange(pair.receives, {}))
    complete(pair.recv_cq, entry_of(pair, receive.id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV));
}

int modify_qp(ibv_qp* base, ibv_qp_attr* attributes, int mask) {
  const std::scoped_lock lock(fabric().mutex);
  if (fails(FakeCall::modify_qp)) return errno;
  auto* const pair = static_cast<Pair*>(base);
  check((mask & IBV_QP_STATE) != 0, "a queue pair is modified to reach a state");
  if (attributes->qp_state == IBV_QPS_ERR) {
    break_pair(*pair);
    return 0;
  }
  const bool in_order = attributes->qp_state == IBV_QPS_INIT ? pair->state == IBV_QPS_RESET
                                                             : attributes->qp_state == pair->state + 1;
  if (!in_order) return EINVAL;
  pair->state = attributes->qp_state;
  if (pair->state == IBV_QPS_RTR) {
    pair->peer = attributes->dest_qp_num;
    pair->mtu = attributes->path_mtu;
    fabric().path.mtu = attributes->path_mtu;
    fabric().path.global = attributes->ah_attr.is_global != 0;
    if (attributes->path_mtu > pair->device().facts.mtu) return EINVAL;
  } else if (pair->state == IBV_QPS_RTS) {
    fabric().path.retries = attributes->retry_cnt;
    fabric().path.receiver_not_ready_retries = attributes->rnr_retry;
    fabric().path.timeout = attributes->timeout;
  }
  return 0;
}

int post_recv(ibv_qp* base, ibv_recv_wr* list, ibv_recv_wr** bad) {
  const std::scoped_lock lock(fabric().mutex);
  auto* const pair = static_cast<Pair*>(base);
  for (; list != nullptr; list = list->next) {
    *bad = list;
    if (pair->receives.size() >= pair->limits.max_recv_wr) return ENOMEM;
    if (pair->state == IBV_QPS_RESET || list->num_sge > 1) return EINVAL;
    if (pair->state == IBV_QPS_ERR)
      complete(pair->recv_cq, entry_of(*pair, list->wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV));
    else
      pair->receives.push_back({list->wr_id, *list->sg_list});
  }
  return 0;
}

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

int post_send(ibv_qp* base, ibv_send_wr* list, ibv_send_wr** bad) {
  const std::scoped_lock lock(fabric().mutex);
  ++fabric().counts.doorbells;
  for (; list != nullptr; list = list->next) {
    *bad = list;
    if (const int error = post_one(static_cast<Pair&>(*base), *list); error != 0) return error;
  }
  return 0;
}

int fork_init() { return 0; }

}  // namespace

FakeVerbs::FakeVerbs(std::vector<FakeDevice> devices) {
  const std::scoped_lock lock(fabric().mutex);
  check(!std::exchange(fabric().in_use, true), "one FakeVerbs at a time");
  fabric().counts = {};
  fabric().path = {};
  for (FakeDevice& facts : devices) {
    auto& device = fabric().devices.emplace_back(std::make_unique<Device>());
    device->transport_type = facts.transport;
    device->facts = std::move(facts);
  }
}

FakeVerbs::~FakeVerbs() {
  const std::scoped_lock lock(fabric().mutex);
  fabric().devices.clear();
  fabric().failing.clear();
  fabric().next_status.reset();
  fabric().withholds = false;
  fabric().in_use = false;
}

verbs::VerbsLibrary FakeVerbs::table() {
  return {.get_device_list = &test::get_device_list,
          .free_device_list = &test::free_device_list,
          .get_device_name = &test::get_device_name,
          .open_device = &test::open_device,
          .close_device = &test::close_device,
          .query_device = &test::query_device,
          .query_port = &test::query_port,
          .query_gid = &test::query_gid,
          .alloc_pd = &test::alloc_pd,
          .dealloc_pd = &test::dealloc_pd,
          .reg_mr = &test::reg_mr,
          .dereg_mr = &test::dereg_mr,
          .create_comp_channel = &test::create_comp_channel,
          .destroy_comp_channel = &test::destroy_comp_channel,
          .create_cq = &test::create_cq,
          .destroy_cq = &test::destroy_cq,
          .get_cq_event = &test::get_cq_event,
          .ack_cq_events = &test::ack_cq_events,
          .create_qp = &test::create_qp,
          .modify_qp = &test::modify_qp,
          .destroy_qp = &test::destroy_qp,
          .fork_init = &test::fork_init,
          .post_send = &test::post_send,
          .post_recv = &test::post_recv,
          .poll_cq = &test::poll_cq,
          .req_notify_cq = &test::req_notify_cq};
}

void FakeVerbs::fail_next_request(ibv_wc_status status) {
  const std::scoped_lock lock(fabric().mutex);
  fabric().next_status = status;
}

void FakeVerbs::fail_call(FakeCall call, int error_number) {
  const std::scoped_lock lock(fabric().mutex);
  if (error_number == 0)
    fabric().failing.erase(call);
  else
    fabric().failing[call] = error_number;
}

void FakeVerbs::cut_off(const std::string& device, bool cut) {
  const std::scoped_lock lock(fabric().mutex);
  for (const auto& one : fabric().devices)
    if (one->facts.name == device) one->cut = cut;
}

void FakeVerbs::withhold_acknowledgements(bool withhold) {
  const std::scoped_lock lock(fabric().mutex);
  fabric().withholds = withhold;
}

FakeCounts FakeVerbs::counts() const {
  const std::scoped_lock lock(fabric().mutex);
  return fabric().counts;
}

FakePath FakeVerbs::last_path() const {
  const std::scoped_lock lock(fabric().mutex);
  return fabric().path;
}

std::size_t FakeVerbs::objects() const {
  const std::scoped_lock lock(fabric().mutex);
  return fabric().objects;
}

}  // namespace rondel::test
