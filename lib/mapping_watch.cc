// SPDX-License-Identifier: Apache-2.0
#include "lib/mapping_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <string>

#include "lib/deadline.h"
#include "lib/service_thread.h"
#include "lib/system_files.h"

namespace rondel {
namespace {

constexpr std::size_t kMostMapsBytes = std::size_t{64} << 20;
// For what takes a few instructions once the reader has a processor.
constexpr std::chrono::milliseconds kLongestNote{200};
// So long may who changes watched memory wait after the program has closed the watch's descriptor.
constexpr std::chrono::milliseconds kLookForDescriptor{1000};

std::uintptr_t page_bytes() {
  static const auto bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

struct Mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool is_private = false;
  bool is_file = true;
};

// "begin-end perms offset device inode path"; of a line that is anything else, an empty mapping.
Mapping parse_mapping(std::string_view line) {
  Mapping mapping;
  const char* const last = line.data() + line.size();
  const auto begin = std::from_chars(line.data(), last, mapping.begin, 16);
  if (begin.ec != std::errc{} || begin.ptr == last) return {};
  const auto end = std::from_chars(begin.ptr + 1, last, mapping.end, 16);
  if (end.ec != std::errc{}) return {};
  const std::string_view rest(end.ptr, static_cast<std::size_t>(last - end.ptr));
  const std::size_t permissions = rest.find_first_not_of(' ');
  if (permissions == std::string_view::npos || rest.size() < permissions + 4) return {};
  mapping.is_private = rest[permissions + 3] == 'p';
  std::size_t at = permissions;
  for (int field = 0; field < 3; ++field) {  // to the inode
    at = rest.find(' ', at);
    if (at == std::string_view::npos) return {};
    at = rest.find_first_not_of(' ', at);
    if (at == std::string_view::npos) return {};
  }
  const std::string_view inode = rest.substr(at, rest.find(' ', at) - at);
  mapping.is_file = inode != "0";
  return mapping;
}

Result<PrivateFd> open_events() {
  utsname kernel{};
  if (::uname(&kernel) != 0 || !tells_of_all_changes(kernel.release))
    return Status(Code::unavailable, fmt::format("watching memory needs Linux 5.19, and this is {}",
                                                 static_cast<const char*>(kernel.release)));
  // Nothing here needs to catch faults in the kernel, for which most processes have no right.
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY;
  const auto fd = static_cast<int>(::syscall(SYS_userfaultfd, kFlags));
  if (fd < 0) return system_failure(Code::unavailable, "watching memory (userfaultfd)", errno);
  PrivateFd events{UniqueFd(fd)};
  uffdio_api api{.api = UFFD_API,
                 .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |
                             UFFD_FEATURE_PAGEFAULT_FLAG_WP,
                 .ioctls = 0};
  if (::ioctl(fd, UFFDIO_API, &api) != 0)
    return system_failure(Code::unavailable, "watching memory (what userfaultfd can tell here)", errno);
  return events;
}

// Watched for faults on pages that are write-protected, of which there are none: what is wanted is the news.
bool start_watching(int events, std::uintptr_t begin, std::uintptr_t end) {
  uffdio_register pages{
      .range = {.start = begin, .len = end - begin}, .mode = UFFDIO_REGISTER_MODE_WP, .ioctls = 0};
  return ::ioctl(events, UFFDIO_REGISTER, &pages) == 0;
}

}  // namespace

bool is_private_memory(std::string_view maps, std::uintptr_t begin, std::uintptr_t end) {
  while (begin < end && !maps.empty()) {
    const std::size_t length = std::min(maps.find('\n'), maps.size());
    const Mapping mapping = parse_mapping(maps.substr(0, length));
    maps.remove_prefix(std::min(length + 1, maps.size()));
    if (mapping.end <= begin) continue;
    if (mapping.begin > begin || !mapping.is_private || mapping.is_file) return false;
    begin = mapping.end;
  }
  return begin >= end;
}

// Before 5.15 one change that ends hides another that is under way, and before 5.19 memory that is pinned may
// get other pages when it is first written to after a change of its protection.
bool tells_of_all_changes(std::string_view kernel_release) {
  constexpr std::pair<unsigned, unsigned> kFirst{5, 19};
  std::pair<unsigned, unsigned> version{0, 0};
  const char* const last = kernel_release.data() + kernel_release.size();
  const auto major = std::from_chars(kernel_release.data(), last, version.first);
  if (major.ec != std::errc{} || major.ptr == last || *major.ptr != '.') return false;
  const auto minor = std::from_chars(major.ptr + 1, last, version.second);
  return minor.ec == std::errc{} && version >= kFirst;
}

MappingWatch::MappingWatch(PrivateFd events, std::byte* probe)
    : events_(std::move(events)), probe_(probe), process_(::getpid()) {}

Result<std::shared_ptr<MappingWatch>> MappingWatch::of_process() {
  static std::mutex mutex;
  static std::weak_ptr<MappingWatch> existing;
  const std::scoped_lock lock(mutex);
  // A child has neither the thread of its parent's nor news of its own.
  if (auto watch = existing.lock(); watch != nullptr && watch->process_ == ::getpid()) return watch;
  auto events = open_events();
  RONDEL_TRY(events);
  void* const probe =
      ::mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return system_failure(Code::out_of_resources, "watching memory (mmap)", errno);
  const int descriptor = events->get();
  std::shared_ptr<MappingWatch> watch(new MappingWatch(*std::move(events), static_cast<std::byte*>(probe)));
  const auto page = reinterpret_cast<std::uintptr_t>(probe);
  if (!start_watching(descriptor, page, page + page_bytes()))
    return system_failure(Code::unavailable, "watching memory (userfaultfd, write protection)", errno);
  auto reader = start_service("watching memory", [body = watch.get()] { body->serve(); });
  RONDEL_TRY(reader);
  watch->reader_ = *std::move(reader);
  existing = watch;
  return watch;
}

// Where there is a reader, it hears of the probe's end.
MappingWatch::~MappingWatch() {
  if (::getpid() != process_) {  // it is the parent's
    if (reader_.joinable()) reader_.detach();
    return;
  }
  const auto page = reinterpret_cast<std::uintptr_t>(probe_);
  if (!reader_.joinable()) unregister(page, page + page_bytes());  // else this would wait for one
  ::munmap(probe_, page_bytes());
  if (reader_.joinable()) reader_.join();
}

void MappingWatch::serve() {
  // A handler of the program's might unmap what is watched, and wait for this thread in this thread.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pollfd ready{.fd = events_.get(), .events = POLLIN, .revents = 0};
  bool watching = true;
  while (watching) {
    const bool news = ::poll(&ready, 1, static_cast<int>(kLookForDescriptor.count())) > 0;
    if (!has_descriptor()) return;
    if (news) watching = read_news();
  }
}

// A program may close descriptors that it does not know, and use their numbers again. As long as this thread
// polled the one that was, all who change watched memory would wait for it to read there.
bool MappingWatch::has_descriptor() const { return touch_probe() == 0 || errno == EAGAIN; }

// Who changes memory waits until the news of it were read, and may be in the midst of anything: hold an
// allocator's locks, or have stopped all other threads wherever they were. So this allocates nothing, frees
// nothing and takes no lock. False when the watch is at its end.
bool MappingWatch::read_news() {
  const auto probe = reinterpret_cast<std::uintptr_t>(probe_);
  bool watching = true;
  for (uffd_msg news{};;) {
    reads_.fetch_add(1);
    const bool read = ::read(events_.get(), &news, sizeof news) == sizeof news;
    if (read && news.event == UFFD_EVENT_UNMAP) note(news.arg.remove.start, news.arg.remove.end, true);
    if (read && news.event == UFFD_EVENT_REMOVE) note(news.arg.remove.start, news.arg.remove.end, false);
    // Where it goes it stays watched, whole: how long it is there the news do not say, and a watch of a part
    // would cut it in two for its owner.
    if (read && news.event == UFFD_EVENT_REMAP)
      note(news.arg.remap.from, news.arg.remap.from + news.arg.remap.len, true);
    reads_.fetch_add(1);
    if (!read) return watching;
    watching &=
        news.event != UFFD_EVENT_UNMAP || news.arg.remove.start > probe || news.arg.remove.end <= probe;
  }
}

// Of a piece that is only just begun it may note what was before, which costs a registration.
void MappingWatch::note(std::uintptr_t begin, std::uintptr_t end, bool gone) {
  for (Piece& piece : pieces_) {
    if (piece.end <= begin || piece.begin >= end) continue;
    if (gone) piece.gone = true;
    if (!piece.changed.exchange(true)) changes_.fetch_add(1, std::memory_order_release);
  }
}

MappingWatch::Watched MappingWatch::begin(const std::shared_ptr<MappingWatch>& watch, const void* data,
                                          std::size_t bytes) {
  const std::uintptr_t page = page_bytes();
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(data) / page * page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(data) + bytes + page - 1) / page * page;
  static_cast<void>(watch->knows_all());  // else what became of these pages before might count
  std::unique_lock lock(watch->mutex_);
  const auto free = std::find_if(watch->pieces_.begin(), watch->pieces_.end(),
                                 [](const Piece& piece) { return piece.end == 0; });
  if (free == watch->pieces_.end()) return {};
  free->changed = free->gone = false;
  free->begin = begin;
  free->end = end;
  if (!start_watching(watch->events_.get(), begin, end)) {
    free->end = 0;
    return {};
  }
  lock.unlock();
  Watched watched(watch, static_cast<std::size_t>(free - watch->pieces_.begin()));
  if (!is_private_memory(whole_text("/proc/self/maps", kMostMapsBytes), begin, end)) return {};
  return watched;
}

// Changes nothing. errno where it fails: EAGAIN, somebody is changing watched memory; else the descriptor is
// not this watch's any more.
int MappingWatch::touch_probe() const {
  uffdio_writeprotect nothing{
      .range = {.start = reinterpret_cast<std::uintptr_t>(probe_), .len = page_bytes()},
      .mode = UFFDIO_WRITEPROTECT_MODE_DONTWAKE};
  return ::ioctl(events_.get(), UFFDIO_WRITEPROTECT, &nothing);
}

// Who changes watched memory counts as doing so from before it is changed until its news were read; while
// anyone does, the kernel refuses to touch protections. Once it does not refuse, all earlier news are read;
// they are noted when a reading that had begun is over.
bool MappingWatch::knows_all() const {
  if (touch_probe() != 0) return false;
  const std::uint32_t seen = reads_;
  if (seen % 2 == 0) return true;
  for (const Deadline deadline = Deadline::in(kLongestNote); reads_ == seen; ::sched_yield())
    if (deadline.passed()) return false;
  return true;
}

bool MappingWatch::is_intact(std::size_t piece) const { return knows_all() && !pieces_[piece].changed; }

// Kernels before 6.17 end the watch of whoever has one there, so what may be somebody else's by now is left
// alone: if it is this one's it tells of changes that nobody needs. Pages that belong to other pieces as well
// stay watched for them. In a child of this process nothing is watched, and nobody may ever give the lock
// back.
void MappingWatch::end(std::size_t piece) {
  if (::getpid() != process_) return;
  const std::scoped_lock lock(mutex_);
  Piece& ended = pieces_[piece];
  const std::uintptr_t end = ended.end;
  const bool ours = knows_all() && !ended.gone;
  ended.end = 0;
  for (std::uintptr_t at = ended.begin; ours && at < end;) {
    std::uintptr_t next = end;
    bool needed = false;
    for (const Piece& other : pieces_) {
      if (other.begin <= at && at < other.end) {
        needed = true;
        next = std::min(other.end.load(), end);
        break;
      }
      if (other.end != 0 && other.begin > at) next = std::min(next, other.begin.load());
    }
    if (!needed) unregister(at, next);
    at = next;
  }
}

// Nothing is lost where it fails: what is there now is not watched, or tells of changes that nobody needs.
void MappingWatch::unregister(std::uintptr_t begin, std::uintptr_t end) const {
  uffdio_range range{.start = begin, .len = end - begin};
  static_cast<void>(::ioctl(events_.get(), UFFDIO_UNREGISTER, &range));
}

MappingWatch::Watched::~Watched() {
  if (watch_ != nullptr) watch_->end(piece_);
}

bool MappingWatch::Watched::intact() const { return watch_->is_intact(piece_); }
bool MappingWatch::Watched::changed() const { return watch_->pieces_[piece_].changed; }

}  // namespace rondel
