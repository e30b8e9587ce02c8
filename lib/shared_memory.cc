// SPDX-License-Identifier: Apache-2.0
#include "lib/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>

namespace rondel {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Newer than Debian 12's headers:
constexpr unsigned kMfdNoExecSeal = 8;  // MFD_NOEXEC_SEAL of Linux 6.3
constexpr int kMadvCollapse = 25;       // MADV_COLLAPSE of Linux 6.1

std::string sized(std::size_t bytes) {
  if (bytes >= std::size_t{10} << 30) return fmt::format("{} GiB", bytes >> 30);
  if (bytes >= std::size_t{10} << 20) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} bytes", bytes);
}

rlim_t limit_of(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

Status exhausted(std::size_t bytes, std::string why, std::string hint) {
  return Status(Code::out_of_resources, fmt::format("no {} of shared memory: {}", sized(bytes), why),
                std::move(hint));
}

// What the kernel could give without killing anybody; the greatest number when it does not say.
std::size_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::size_t kilobytes = 0, total = 0;
  bool known = false;
  for (std::string name, rest; meminfo >> name >> kilobytes; std::getline(meminfo, rest)) {
    known = known || name == "MemAvailable:";
    if (name == "MemAvailable:" || name == "SwapFree:") total += kilobytes << 10;
  }
  return known ? total : std::numeric_limits<std::size_t>::max();
}

// Limits that the kernel answers with a signal when they are met, so they are looked at first.
Status check_room(std::size_t bytes) {
  const std::size_t available = available_bytes();
  if (bytes > available)
    return exhausted(bytes, fmt::format("this machine has {} available", sized(available)),
                     "use smaller buffers or fewer ranks per host");
  const rlim_t file_size = limit_of(RLIMIT_FSIZE);
  if (file_size != RLIM_INFINITY && bytes > file_size)
    return exhausted(bytes, fmt::format("the limit on file sizes (ulimit -f) is {}", sized(file_size)),
                     "raise it: shared memory counts as a file");
  return {};
}

Result<UniqueFd> make_memfd(std::size_t bytes) {
  UniqueFd fd(::memfd_create("rondel-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | kMfdNoExecSeal));
  if (!fd && errno == EINVAL)  // before Linux 6.3
    fd = UniqueFd(::memfd_create("rondel-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int error = errno;
  if (!fd)
    return system_failure(Code::unavailable, "memfd_create", error,
                          error == EPERM || error == EACCES || error == ENOSYS
                              ? "let the container's seccomp profile allow it, if ranks are to share memory"
                              : "");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return system_failure(Code::out_of_resources, "setting a memfd's size to " + sized(bytes), errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_failure(Code::io_error, "sealing a memfd", errno);
  return fd;
}

// Advice only: without huge pages everything works, slower. Most systems do not give them to shared memory by
// themselves (shmem_enabled), but a range that has a page already can be made one.
void ask_for_huge_pages(std::byte* data, std::size_t bytes) {
  (void)::madvise(data, bytes, MADV_HUGEPAGE);
  for (std::size_t at = 0; at + kHugePage <= bytes; at += kHugePage)
    if (::madvise(data + at, kPage, MADV_POPULATE_WRITE) != 0) return;
  if (bytes >= kHugePage) (void)::madvise(data, bytes, kMadvCollapse);
}

Status fault_in(int fd, std::byte* data, std::size_t bytes) {
  ask_for_huge_pages(data, bytes);
  if (::madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return {};
  int error = errno;
  if (error == EINVAL) {  // before Linux 5.14: reserve the pages, so that touching them can not fail
    error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    if (error == 0) {
      for (std::size_t at = 0; at < bytes; at += kPage)
        reinterpret_cast<std::atomic<char>*>(data + at)->fetch_or(0);
      return {};
    }
  }
  return system_failure(Code::out_of_resources, "filling " + sized(bytes) + " of shared memory", error,
                        "the memory limit of this machine or control group is met; use smaller buffers");
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // pairs with nothing: only uniqueness matters
}

/// All shared memories of this process by their first byte.
class List {
 public:
  static List& of_process() {
    static List* const list = new List;  // outlives every static object that holds memory
    return *list;
  }

  void add(const std::byte* data, const SharedMemory::Place& place) {
    const std::lock_guard lock(mutex_);
    places_[data] = place;
  }
  void remove(const std::byte* data) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(data);
    departed_.push_back(found->second.id);
    places_.erase(found);
    count_.store(departed_.size(), std::memory_order_release);  // pairs with departed_since()
  }
  std::optional<SharedMemory::Place> find(const std::byte* data, std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    auto next = places_.upper_bound(data);
    if (next == places_.begin()) return std::nullopt;
    const auto& [begin, whole] = *--next;
    const auto offset = static_cast<std::size_t>(data - begin);
    if (offset > whole.bytes || bytes > whole.bytes - offset) return std::nullopt;
    return SharedMemory::Place{whole.fd, offset, whole.bytes, whole.id};
  }
  std::uint64_t departures() const { return count_.load(std::memory_order_acquire); }  // pairs with remove()
  std::vector<std::uint64_t> departed_since(std::uint64_t& seen) const {
    if (count_.load(std::memory_order_acquire) == seen) return {};  // pairs with remove()
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> ids(departed_.begin() + static_cast<std::ptrdiff_t>(seen), departed_.end());
    seen = departed_.size();
    return ids;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, SharedMemory::Place, std::less<>> places_;
  std::vector<std::uint64_t> departed_;  // eight bytes for each memory that ever was
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace

// Reserves more and trims both ends.
Result<std::byte*> map_shared(int fd, std::size_t bytes) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  const std::size_t reserved = bytes + alignment - kPage;
  void* raw = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    const rlim_t space = limit_of(RLIMIT_AS);
    if (errno == ENOMEM && space != RLIM_INFINITY)
      return exhausted(bytes, fmt::format("the limit on address space (ulimit -v) is {}", sized(space)),
                       "raise it or use smaller buffers");
    return system_failure(Code::out_of_resources, "reserving " + sized(bytes) + " of address space", errno,
                          "see vm.max_map_count and vm.overcommit_memory");
  }
  auto* start = static_cast<std::byte*>(raw);
  const std::size_t skip = (alignment - reinterpret_cast<std::uintptr_t>(start) % alignment) % alignment;
  std::byte* aligned = start + skip;
  if (skip > 0) ::munmap(start, skip);
  if (reserved - skip > bytes) ::munmap(aligned + bytes, reserved - skip - bytes);
  if (::mmap(aligned, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(aligned, bytes);
    return system_failure(Code::out_of_resources, "mapping " + sized(bytes) + " of shared memory", error);
  }
  return aligned;
}

std::optional<SharedMemory::Place> SharedMemory::find(const void* data, std::size_t bytes) {
  return List::of_process().find(static_cast<const std::byte*>(data), bytes);
}
std::vector<std::uint64_t> SharedMemory::departed_since(std::uint64_t& seen) {
  return List::of_process().departed_since(seen);
}
std::uint64_t SharedMemory::departures() { return List::of_process().departures(); }

Result<SharedMemory> SharedMemory::create(std::size_t bytes) {
  const std::size_t unit = bytes >= kHugePage ? kHugePage : kPage;
  if (bytes > static_cast<std::size_t>(std::numeric_limits<off_t>::max()) - unit)
    return Status(Code::invalid_argument, fmt::format("{} bytes are more than any memory", bytes));
  const std::size_t whole = bytes == 0 ? kPage : (bytes + unit - 1) / unit * unit;
  RONDEL_TRY(check_room(whole));
  auto fd = make_memfd(whole);
  RONDEL_TRY(fd);
  auto data = map_shared(fd->get(), whole);
  RONDEL_TRY(data);
  SharedMemory memory(std::move(fd).value(), data.value(), whole);
  RONDEL_TRY(fault_in(memory.fd(), memory.data(), whole));
  return memory;
}

SharedMemory::SharedMemory(UniqueFd fd, std::byte* data, std::size_t bytes)
    : fd_(std::move(fd)), data_(data), bytes_(bytes), id_(next_id()) {
  List::of_process().add(data_, {fd_.get(), 0, bytes_, id_});
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      id_(other.id_) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(id_, other.id_);
  return *this;
}

void SharedMemory::drop_pages() {
  (void)::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes_));
}

SharedMemory::~SharedMemory() {
  if (data_ == nullptr) return;
  List::of_process().remove(data_);
  ::munmap(data_, bytes_);
}

}  // namespace rondel
