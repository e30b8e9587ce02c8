// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/device.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rondel::verbs {
namespace {

constexpr std::uint32_t kMostSlices = 30;  // more gain nothing and make each request larger

// Finds a device again by its name; the list is only valid for as long as it is held.
Owned<ibv_context> open_by_name(const VerbsLibrary& verbs, const std::string& name) {
  int count = 0;
  ibv_device** const list = verbs.get_device_list(&count);
  Owned<ibv_context> context(nullptr, verbs.close_device);
  if (list == nullptr) return context;
  errno = ENODEV;
  for (int i = 0; i < count; ++i)
    if (name == verbs.get_device_name(list[i])) context.reset(verbs.open_device(list[i]));
  const int error = errno;
  verbs.free_device_list(list);
  errno = error;
  return context;
}

// Before anything is registered. Newer kernels copy registered pages when a process forks; older ones would
// take them from the device at the parent's next write, so the library then keeps them from the child. Where
// that is not needed it must not be asked for: the child would also miss what else lies on those pages.
void prepare_for_forks(const VerbsLibrary& verbs) {
  const bool unneeded =
      verbs.is_fork_initialized != nullptr && verbs.is_fork_initialized() == IBV_FORK_UNNEEDED;
  if (!unneeded) static_cast<void>(verbs.fork_init());
}

constexpr std::string_view kUnlimited = "unlimited";

/// Bytes; RLIM_INFINITY: as many as there are.
rlim_t lock_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? limit.rlim_cur : 0;
}

std::string lock_limit_text() {
  const rlim_t limit = lock_limit();
  return limit == RLIM_INFINITY ? std::string(kUnlimited) : fmt::format("{} KiB", limit / 1024);
}

}  // namespace

Status device_failure(std::string_view what, int error_number, std::size_t locked_bytes) {
  const std::string limit = lock_limit_text();
  // Where nothing may be locked at all, kernels say that it is not permitted.
  const bool locking = locked_bytes > 0 && (error_number == ENOMEM || error_number == EAGAIN ||
                                            (error_number == EPERM && limit != kUnlimited));
  if (!locking)
    return system_failure(resources_ran_out(error_number) ? Code::out_of_resources : Code::io_error, what,
                          error_number);
  return Status(
      Code::out_of_resources,
      fmt::format("{}: out of memory that can be locked; the limit (ulimit -l) is {}, this needs {} "
                  "KiB more",
                  what, limit, (locked_bytes + 1023) / 1024),
      "raise it: ulimit -l unlimited, or LimitMEMLOCK=infinity in the service that starts the job");
}

Device::Device(const VerbsLibrary& verbs, const DeviceChoice& choice, Owned<ibv_context> context)
    : verbs_(verbs),
      choice_(choice),
      context_(std::move(context)),
      events_(verbs_, context_.get(), choice.device, choice.port),
      domain_(nullptr, verbs.dealloc_pd) {}

Result<std::shared_ptr<Device>> Device::open(const VerbsLibrary& verbs, const DeviceChoice& choice) {
  prepare_for_forks(verbs);
  auto context = open_by_name(verbs, choice.device);
  if (context == nullptr) return device_failure(fmt::format("opening {}", choice.device), errno);
  ibv_device_attr attributes{};
  if (const int error = verbs.query_device(context.get(), &attributes); error != 0)
    return device_failure(fmt::format("asking {} for its limits", choice.device), error);
  ibv_port_attr port{};
  if (const int error = verbs.query_port(context.get(), choice.port, &port); error != 0)
    return device_failure(fmt::format("asking {} for port {}", choice.device, choice.port), error);
  std::shared_ptr<Device> device(new Device(verbs, choice, std::move(context)));
  RONDEL_TRY(device->events_.prepare());
  device->domain_.reset(verbs.alloc_pd(device->context()));
  if (device->domain_ == nullptr) return device_failure("making a protection domain", errno);
  DeviceLimits& limits = device->limits_;
  limits.slices = std::clamp(static_cast<std::uint32_t>(attributes.max_sge), 1U, kMostSlices);
  limits.requests = static_cast<std::uint32_t>(attributes.max_qp_wr);
  limits.completions = static_cast<std::uint32_t>(attributes.max_cqe);
  limits.message_bytes = std::clamp<std::size_t>(port.max_msg_sz, 4096, std::size_t{1} << 30);
  limits.locked_memory = lock_limit() != RLIM_INFINITY;
  return device;
}

Result<DeviceMemory> DeviceMemory::create(std::shared_ptr<Device> device, MemorySpan memory) {
  DeviceMemory made;
  if (memory.bytes == 0) return made;
  const VerbsLibrary& verbs = device->verbs();
  made.region_ = Owned<ibv_mr>(verbs.reg_mr(device->domain(), memory.data, memory.bytes,
                                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                               verbs.dereg_mr);
  made.writable_ = made.region_ != nullptr || errno != EFAULT;
  if (!made.writable_) made.region_.reset(verbs.reg_mr(device->domain(), memory.data, memory.bytes, 0));
  if (made.region_ == nullptr)
    return device_failure(fmt::format("registering {} bytes with {}", memory.bytes, device->choice().device),
                          errno, memory.bytes);
  made.device_ = std::move(device);
  return made;
}

}  // namespace rondel::verbs
