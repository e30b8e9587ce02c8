// SPDX-License-Identifier: Apache-2.0
// A libibverbs.so.1 for programs that look at devices and move nothing: its devices are the names in
// /sys/class/infiniband, and how each is says the beginning of its name: "down", "bare" (without an address),
// "first" (RoCE v1 only); any other is well. Registering memory heeds the limit on locked memory, root's too.
#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

#define MOST 8
static struct ibv_device devices[MOST];

struct ibv_device** ibv_get_device_list(int* count) {
  struct ibv_device** list = calloc(MOST + 1, sizeof *list);
  DIR* folder = opendir("/sys/class/infiniband");
  int found = 0;
  for (struct dirent* entry = NULL; folder != NULL && found < MOST && (entry = readdir(folder)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(devices[found].name, sizeof devices[found].name, "%.60s", entry->d_name);
    devices[found].transport_type = IBV_TRANSPORT_IB;
    list[found] = &devices[found];
    ++found;
  }
  if (folder != NULL) closedir(folder);
  *count = found;
  return list;
}
void ibv_free_device_list(struct ibv_device** list) { free(list); }
const char* ibv_get_device_name(struct ibv_device* device) { return device->name; }

static int is(const struct ibv_context* context, const char* kind) {
  return strncmp(context->device->name, kind, strlen(kind)) == 0;
}

struct ibv_context* ibv_open_device(struct ibv_device* device) {
  struct ibv_context* context = calloc(1, sizeof *context);
  context->device = device;
  context->async_fd = eventfd(0, EFD_CLOEXEC);
  return context;
}
int ibv_close_device(struct ibv_context* context) {
  close(context->async_fd);
  free(context);
  return 0;
}
int ibv_query_device(struct ibv_context* context, struct ibv_device_attr* attributes) {
  (void)context;
  memset(attributes, 0, sizeof *attributes);
  attributes->phys_port_cnt = 1;
  attributes->max_sge = 30;
  attributes->max_qp_wr = 1024;
  attributes->max_cqe = 65536;
  return 0;
}
int ibv_query_port(struct ibv_context* context, uint8_t port, struct _compat_ibv_port_attr* into) {
  struct ibv_port_attr* attributes = (struct ibv_port_attr*)into;
  (void)port;
  memset(attributes, 0, sizeof *attributes);
  attributes->state = is(context, "down") ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->max_msg_sz = 1U << 30;
  attributes->active_width = 2;
  attributes->active_speed = 32;
  attributes->gid_tbl_len = is(context, "bare") ? 0 : 1;
  return 0;
}
int _ibv_query_gid_ex(struct ibv_context* context, uint32_t port, uint32_t index, struct ibv_gid_entry* entry,
                      uint32_t flags, size_t bytes) {
  static const uint8_t kAddress[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1};
  (void)port, (void)index, (void)flags;
  memset(entry, 0, bytes);
  entry->gid_type = is(context, "first") ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  memcpy(entry->gid.raw, kAddress, sizeof kAddress);
  return 0;
}
int ibv_get_async_event(struct ibv_context* context, struct ibv_async_event* event) {
  (void)context, (void)event;
  return -1;
}
void ibv_ack_async_event(struct ibv_async_event* event) { (void)event; }
int ibv_fork_init(void) { return 0; }

struct ibv_pd* ibv_alloc_pd(struct ibv_context* context) {
  struct ibv_pd* domain = calloc(1, sizeof *domain);
  domain->context = context;
  return domain;
}
int ibv_dealloc_pd(struct ibv_pd* domain) {
  free(domain);
  return 0;
}
struct ibv_mr* ibv_reg_mr(struct ibv_pd* domain, void* address, size_t bytes, int access) {
  struct rlimit limit;
  (void)access;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    errno = limit.rlim_cur == 0 ? EPERM : ENOMEM;  // as the kernel's
    return NULL;
  }
  struct ibv_mr* region = calloc(1, sizeof *region);
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = bytes;
  return region;
}
int ibv_dereg_mr(struct ibv_mr* region) {
  free(region);
  return 0;
}

// Nothing is connected.
static void* none(void) {
  errno = ENOSYS;
  return NULL;
}
struct ibv_comp_channel* ibv_create_comp_channel(struct ibv_context* context) {
  return (void)context, none();
}
int ibv_destroy_comp_channel(struct ibv_comp_channel* channel) { return (void)channel, 0; }
struct ibv_cq* ibv_create_cq(struct ibv_context* context, int entries, void* mine,
                             struct ibv_comp_channel* channel, int vector) {
  return (void)context, (void)entries, (void)mine, (void)channel, (void)vector, none();
}
int ibv_destroy_cq(struct ibv_cq* queue) { return (void)queue, 0; }
int ibv_get_cq_event(struct ibv_comp_channel* channel, struct ibv_cq** queue, void** mine) {
  return (void)channel, (void)queue, (void)mine, -1;
}
void ibv_ack_cq_events(struct ibv_cq* queue, unsigned events) { (void)queue, (void)events; }
struct ibv_qp* ibv_create_qp(struct ibv_pd* domain, struct ibv_qp_init_attr* attributes) {
  return (void)domain, (void)attributes, none();
}
int ibv_modify_qp(struct ibv_qp* pair, struct ibv_qp_attr* attributes, int mask) {
  return (void)pair, (void)attributes, (void)mask, ENOSYS;
}
int ibv_destroy_qp(struct ibv_qp* pair) { return (void)pair, 0; }
