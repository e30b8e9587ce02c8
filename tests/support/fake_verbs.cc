// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_verbs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "lib/check.h"
#include "tests/support/fake_verbs_fabric.h"

namespace rondel::test {
namespace fake {

Fabric& fabric() {
  static Fabric the_fabric;
  return the_fabric;
}

}  // namespace fake

namespace {

using fake::break_pair;
using fake::Channel;
using fake::complete;
using fake::Context;
using fake::Device;
using fake::Entry;
using fake::fabric;
using fake::Pair;
using fake::Queue;
using fake::Region;

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
  context->async_fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  fabric().contexts.push_back(context);
  return context;
}

int close_device(ibv_context* context) {
  const std::scoped_lock lock(fabric().mutex);
  std::erase(fabric().contexts, context);
  ::close(context->async_fd);
  return destroyed<Context>(context);
}

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_sge = static_cast<Device*>(context->device)->facts.max_sge;
  attributes->max_qp_wr = static_cast<Device*>(context->device)->facts.max_requests;
  attributes->max_cqe = static_cast<Device*>(context->device)->facts.max_completions;
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

int get_async_event(ibv_context* base, ibv_async_event* event) {
  eventfd_t one = 0;
  if (::eventfd_read(base->async_fd, &one) != 0) return -1;
  const std::scoped_lock lock(fabric().mutex);
  auto* const context = static_cast<Context*>(base);
  if (context->events.empty()) return -1;
  *event = context->events.front();
  context->events.pop_front();
  return 0;
}

void ack_async_event(ibv_async_event*) {}

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
  if (access != 0 && fails(FakeCall::reg_mr_to_write)) return nullptr;
  if (fabric().most_regions && fabric().regions.size() >= *fabric().most_regions) {
    errno = ENOMEM;
    return nullptr;
  }
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
  if (entries > static_cast<Device*>(context->device)->facts.max_completions) {
    errno = EINVAL;
    return nullptr;
  }
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

// The oldest; when pairs are shuffled, that of any one of them.
std::deque<Entry>::iterator next_of(std::deque<Entry>& entries) {
  if (!fabric().shuffler) return entries.begin();
  const std::uint32_t pair = entries[(*fabric().shuffler)() % entries.size()].completion.qp_num;
  return std::find_if(entries.begin(), entries.end(),
                      [pair](const Entry& entry) { return entry.completion.qp_num == pair; });
}

int poll_cq(ibv_cq* base, int most, ibv_wc* completions) {
  const std::scoped_lock lock(fabric().mutex);
  auto* const queue = static_cast<Queue*>(base);
  if (fabric().queues_broken) return -1;
  int taken = 0;
  for (; taken < most && !queue->entries.empty(); ++taken) {
    const auto entry = next_of(queue->entries);
    if (entry->pair != nullptr) entry->pair->outstanding -= entry->covers;
    completions[taken] = entry->completion;
    queue->entries.erase(entry);
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
  if (pair->state == IBV_QPS_INIT) {
    fabric().path.pkey_index = attributes->pkey_index;
  } else if (pair->state == IBV_QPS_RTR) {
    pair->peer = attributes->dest_qp_num;
    pair->mtu = attributes->path_mtu;
    fabric().path.mtu = attributes->path_mtu;
    fabric().path.global = attributes->ah_attr.is_global != 0;
    fabric().path.service_level = attributes->ah_attr.sl;
    fabric().path.traffic_class = attributes->ah_attr.grh.traffic_class;
    if (attributes->path_mtu > pair->device().facts.mtu) return EINVAL;
  } else if (pair->state == IBV_QPS_RTS) {
    fabric().path.retries = attributes->retry_cnt;
    fabric().path.receiver_not_ready_retries = attributes->rnr_retry;
    fabric().path.timeout = attributes->timeout;
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
  fabric().shuffler.reset();
  fabric().withholds = false;
  fabric().queues_broken = false;
  fabric().most_regions.reset();
  fabric().most_packet_bytes.reset();
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
          .get_async_event = &test::get_async_event,
          .ack_async_event = &test::ack_async_event,
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
          .post_send = &fake::post_send,
          .post_recv = &fake::post_recv,
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

void FakeVerbs::limit_regions(std::size_t most) {
  const std::scoped_lock lock(fabric().mutex);
  fabric().most_regions = most;
}

void FakeVerbs::cut_off(const std::string& device, bool cut) {
  const std::scoped_lock lock(fabric().mutex);
  for (const auto& one : fabric().devices)
    if (one->facts.name == device) one->cut = cut;
}

void FakeVerbs::drop_packets_over(std::size_t bytes) {
  const std::scoped_lock lock(fabric().mutex);
  fabric().most_packet_bytes = bytes;
}

void FakeVerbs::report(const std::string& device, ibv_event_type type) {
  const std::scoped_lock lock(fabric().mutex);
  for (Context* const context : fabric().contexts) {
    if (static_cast<Device*>(context->device)->facts.name != device) continue;
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = 1;
    context->events.push_back(event);
    ::eventfd_write(context->async_fd, 1);
  }
}

void FakeVerbs::break_queues(bool broken) {
  const std::scoped_lock lock(fabric().mutex);
  fabric().queues_broken = broken;
}

void FakeVerbs::shuffle_pairs(std::uint64_t seed) {
  const std::scoped_lock lock(fabric().mutex);
  fabric().shuffler.emplace(static_cast<std::minstd_rand::result_type>(seed));
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
