// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace rondel::verbs {
namespace {

constexpr const char* kPackage = "install the RDMA libraries (packages libibverbs1 and ibverbs-providers)";

/// Takes functions out of an open library; remembers the first that is not there.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  template <class Function>
  void find_if_there(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

int post_send(ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad) { return ibv_post_send(pair, list, bad); }
int post_recv(ibv_qp* pair, ibv_recv_wr* list, ibv_recv_wr** bad) { return ibv_post_recv(pair, list, bad); }
int poll_cq(ibv_cq* queue, int most, ibv_wc* completions) { return ibv_poll_cq(queue, most, completions); }
int req_notify_cq(ibv_cq* queue, int solicited_only) { return ibv_req_notify_cq(queue, solicited_only); }

void find_devices(Symbols& symbols, VerbsLibrary& table) {
  symbols.find(table.get_device_list, "ibv_get_device_list");
  symbols.find(table.free_device_list, "ibv_free_device_list");
  symbols.find(table.get_device_name, "ibv_get_device_name");
  symbols.find(table.open_device, "ibv_open_device");
  symbols.find(table.close_device, "ibv_close_device");
  symbols.find(table.query_device, "ibv_query_device");
  symbols.find(table.query_port, "ibv_query_port");
  symbols.find(table.query_gid, "_ibv_query_gid_ex");
  symbols.find(table.get_async_event, "ibv_get_async_event");
  symbols.find(table.ack_async_event, "ibv_ack_async_event");
  symbols.find(table.fork_init, "ibv_fork_init");
  symbols.find_if_there(table.is_fork_initialized, "ibv_is_fork_initialized");
}

void find_objects(Symbols& symbols, VerbsLibrary& table) {
  symbols.find(table.alloc_pd, "ibv_alloc_pd");
  symbols.find(table.dealloc_pd, "ibv_dealloc_pd");
  symbols.find(table.reg_mr, "ibv_reg_mr");
  symbols.find(table.dereg_mr, "ibv_dereg_mr");
  symbols.find(table.create_comp_channel, "ibv_create_comp_channel");
  symbols.find(table.destroy_comp_channel, "ibv_destroy_comp_channel");
  symbols.find(table.create_cq, "ibv_create_cq");
  symbols.find(table.destroy_cq, "ibv_destroy_cq");
  symbols.find(table.get_cq_event, "ibv_get_cq_event");
  symbols.find(table.ack_cq_events, "ibv_ack_cq_events");
  symbols.find(table.create_qp, "ibv_create_qp");
  symbols.find(table.modify_qp, "ibv_modify_qp");
  symbols.find(table.destroy_qp, "ibv_destroy_qp");
}

}  // namespace

Result<VerbsLibrary> load_library(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return Status(Code::unavailable,
                  fmt::format("can not load {}: {}", file, why == nullptr ? "no reason given" : why),
                  kPackage);
  }
  VerbsLibrary table;
  Symbols symbols(library);
  find_devices(symbols, table);
  find_objects(symbols, table);
  table.post_send = &post_send;
  table.post_recv = &post_recv;
  table.poll_cq = &poll_cq;
  table.req_notify_cq = &req_notify_cq;
  if (symbols.missing() != nullptr)
    return Status(Code::unavailable, fmt::format("{} has no function {}", file, symbols.missing()),
                  "use the RDMA libraries of rdma-core 33 or newer");
  return table;
}

const Result<VerbsLibrary>& system_library() {
  static const Result<VerbsLibrary> kLibrary = load_library();
  return kLibrary;
}

}  // namespace rondel::verbs
