// SPDX-License-Identifier: Apache-2.0
// VerbsLibrary: libibverbs as a table of plain function pointers, opened at run time, so that one binary runs
// with and without it and tests can give another table. What verbs.h has as inline functions (posting,
// polling) is in the table too, because those go through the provider's own operations. Loaded once per
// process and never unloaded: providers keep state. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "lib/status.h"

namespace rondel::verbs {

struct VerbsLibrary {
  ibv_device** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(ibv_device** list) = nullptr;
  const char* (*get_device_name)(ibv_device* device) = nullptr;
  ibv_context* (*open_device)(ibv_device* device) = nullptr;
  int (*close_device)(ibv_context* context) = nullptr;
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes) = nullptr;
  int (*query_port)(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) = nullptr;
  /// The last argument is the size of the entry.
  int (*query_gid)(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                   std::uint32_t flags, std::size_t entry_bytes) = nullptr;
  int (*get_async_event)(ibv_context* context, ibv_async_event* event) = nullptr;
  void (*ack_async_event)(ibv_async_event* event) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context* context) = nullptr;
  int (*dealloc_pd)(ibv_pd* domain) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* address, std::size_t bytes, int access) = nullptr;
  int (*dereg_mr)(ibv_mr* region) = nullptr;
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel* channel) = nullptr;
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* mine, ibv_comp_channel* channel,
                       int vector) = nullptr;
  int (*destroy_cq)(ibv_cq* queue) = nullptr;
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** mine) = nullptr;
  void (*ack_cq_events)(ibv_cq* queue, unsigned events) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes) = nullptr;
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask) = nullptr;
  int (*destroy_qp)(ibv_qp* pair) = nullptr;
  int (*fork_init)() = nullptr;
  /// Null in libraries before rdma-core 36.
  ibv_fork_status (*is_fork_initialized)() = nullptr;

  // Inline in verbs.h.
  int (*post_send)(ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad) = nullptr;
  int (*post_recv)(ibv_qp* pair, ibv_recv_wr* list, ibv_recv_wr** bad) = nullptr;
  int (*poll_cq)(ibv_cq* queue, int most, ibv_wc* completions) = nullptr;
  int (*req_notify_cq)(ibv_cq* queue, int solicited_only) = nullptr;
};

/// The file that is opened.
inline constexpr const char* kLibraryFile = "libibverbs.so.1";

/// Opens `file` and finds every function. unavailable says what is missing and which package has it.
Result<VerbsLibrary> load_library(const char* file = kLibraryFile);

/// What load_library() gave at the first call, for the life of the process.
const Result<VerbsLibrary>& system_library();

}  // namespace rondel::verbs
