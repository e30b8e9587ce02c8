// SPDX-License-Identifier: Apache-2.0
// MappingWatch: tells whether memory is still the pages that it was when somebody began to watch it, for who
// keeps something about those pages, such as a device's right to reach them. The kernel tells of what is
// unmapped, moved or given back through userfaultfd(2), and whoever does that waits until the news was read,
// by a thread that this needs. One for the process, because a page has room for one watcher. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "lib/private_fd.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

/// Whether /proc/self/maps says that all of [begin, end) is private memory that is no file's. A file's pages
/// can be taken away without any news.
bool is_private_memory(std::string_view maps, std::uintptr_t begin, std::uintptr_t end);

/// Whether the kernel of this release ("6.1.0-57-amd64", as uname says) tells of every change: from 5.19 on.
bool tells_of_all_changes(std::string_view kernel_release);

class MappingWatch {
 public:
  /// Pieces of memory that are watched at one time.
  static constexpr std::size_t kMost = 256;

  /// One piece of memory while it is watched; stops that when it goes.
  class Watched {
   public:
    Watched() = default;
    Watched(Watched&& other) noexcept
        : watch_(std::move(other.watch_)), piece_(std::exchange(other.piece_, 0)) {}
    Watched& operator=(Watched&& other) noexcept {
      std::swap(watch_, other.watch_);
      std::swap(piece_, other.piece_);
      return *this;
    }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    ~Watched();

    explicit operator bool() const { return watch_ != nullptr; }
    /// True: they are the same pages as when the watch began. False: they may not be, and it will not become
    /// true again; or other watched memory is just being changed by another thread.
    bool intact() const;
    /// True: it was found changed, and is never intact again. Costs nothing.
    bool changed() const;

   private:
    friend class MappingWatch;
    Watched(std::shared_ptr<MappingWatch> watch, std::size_t piece)
        : watch_(std::move(watch)), piece_(piece) {}

    std::shared_ptr<MappingWatch> watch_;
    std::size_t piece_ = 0;
  };

  /// The process's, made for the first who asks and kept while somebody has it. unavailable: says what the
  /// kernel, or who limits this process, does not allow.
  static Result<std::shared_ptr<MappingWatch>> of_process();
  ~MappingWatch();
  MappingWatch(const MappingWatch&) = delete;
  MappingWatch& operator=(const MappingWatch&) = delete;

  /// Watches the whole pages that hold [data, data + bytes); false when they can not be: shared with other
  /// processes, a file's, watched by somebody else, or too many already.
  static Watched begin(const std::shared_ptr<MappingWatch>& watch, const void* data, std::size_t bytes);
  /// How many pieces were found changed so far. Once it stands still, so does what `intact` says.
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

 private:
  /// Its pages are set by who begins and ends it, what became of them by the reader.
  struct Piece {
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0};  // 0: free
    std::atomic<bool> changed{false};
    std::atomic<bool> gone{false};  // unmapped or moved, in part at least: what is there may be anybody's
  };

  MappingWatch(PrivateFd events, std::byte* probe);
  void serve();
  bool read_news();
  void note(std::uintptr_t begin, std::uintptr_t end, bool gone);
  bool has_descriptor() const;
  int touch_probe() const;
  bool knows_all() const;
  bool is_intact(std::size_t piece) const;
  void end(std::size_t piece);
  void unregister(std::uintptr_t begin, std::uintptr_t end) const;

  const PrivateFd events_;
  std::byte* const probe_;  // a page that is watched and never touched
  const int process_;
  std::mutex mutex_;  // of who begins and ends; the reader never waits
  std::array<Piece, kMost> pieces_;
  std::atomic<std::uint64_t> changes_{0};
  std::atomic<std::uint32_t> reads_{0};  // odd while news may be read and not noted yet
  std::thread reader_;
};

}  // namespace rondel
