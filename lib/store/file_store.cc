// SPDX-License-Identifier: Apache-2.0
// One file per key. A value is written to a file of its own, then renamed over the key's, so that a reader
// sees all of it or nothing. Writers hold a lock (flock on one file) so that add() is one step for all
// processes. Readers poll: notification does not cross machines on a shared directory.
#include "lib/store/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/sha.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "lib/hexadecimal.h"
#include "lib/store/entries.h"
#include "lib/unique_fd.h"

namespace rondel {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLongestPause{20};
constexpr std::chrono::seconds kLockPatience{10};
constexpr const char* kLockName = "lock";
constexpr const char* kNamePrefix = "key-";

/// Sleeps, each time for longer, and never past the deadline.
class BackOff {
 public:
  void sleep(Deadline deadline) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause_, deadline.left()));
    pause_ = std::min(pause_ * 2, kLongestPause);
  }

 private:
  milliseconds pause_ = kFirstPause;
};

/// Readable for people, unique by the digest: a key may be longer than a file name or hold a '/'.
std::string file_name_of(std::string_view key) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  std::string name = kNamePrefix;
  for (const char c : key.substr(0, 80)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    name += plain ? c : '_';
  }
  name += '-';
  return name + hexadecimal(std::as_bytes(std::span(digest)).first(16));
}

Status write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return system_failure(Code::io_error, "writing a store value", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<Bytes> read_all(int fd) {
  Bytes bytes;
  std::array<std::byte, 16 * 1024> piece;
  for (;;) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(Code::io_error, "reading a store value", errno);
    if (got == 0) return bytes;
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + got);
    if (bytes.size() > kStoreValueLimit)
      return Status(Code::io_error, "a file in the store's directory is over the limit of a store value");
  }
}

class FileStore final : public Store {
 public:
  FileStore(std::string path, UniqueFd directory)
      : path_(std::move(path)), directory_(std::move(directory)) {}

  Status set(std::string_view key, std::span<const std::byte> value, Deadline deadline) override {
    RONDEL_TRY(store::check_entry(key, value));
    const auto lock = hold_lock(deadline);
    if (!lock.ok()) return lock.status();
    return replace(file_name_of(key), value);
  }

  Result<Bytes> get(std::string_view key, Deadline deadline) override {
    RONDEL_TRY(store::check_key(key));
    const auto since = Deadline::Clock::now();
    const std::string name = file_name_of(key);
    BackOff back_off;
    for (;;) {
      auto value = find(name);
      if (!value.ok()) return value.status();
      if (value->has_value()) return std::move(**value);
      if (deadline.passed()) return store::not_set(std::array{std::string(key)}, since);
      back_off.sleep(deadline);
    }
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t increment, Deadline deadline) override {
    RONDEL_TRY(store::check_key(key));
    const auto lock = hold_lock(deadline);
    if (!lock.ok()) return lock.status();
    const std::string name = file_name_of(key);
    const auto old_value = find(name);
    if (!old_value.ok()) return old_value.status();
    auto sum = store::add_to_counter(key, old_value->has_value() ? &**old_value : nullptr, increment);
    if (sum.ok()) RONDEL_TRY(replace(name, store::counter_text(*sum)));
    return sum;
  }

  Status wait(std::span<const std::string> keys, Deadline deadline) override {
    const auto since = Deadline::Clock::now();
    std::vector<std::string> missing(keys.begin(), keys.end());
    for (const std::string& key : missing) RONDEL_TRY(store::check_key(key));
    BackOff back_off;
    for (;;) {
      RONDEL_TRY(check_directory());
      erase_set(missing);
      if (missing.empty()) return {};
      if (deadline.passed()) return store::not_set(missing, since);
      back_off.sleep(deadline);
    }
  }

  Result<std::vector<std::string>> missing(std::span<const std::string> keys, Deadline) override {
    std::vector<std::string> missing(keys.begin(), keys.end());
    for (const std::string& key : missing) RONDEL_TRY(store::check_key(key));
    RONDEL_TRY(check_directory());
    erase_set(missing);
    return missing;
  }

  Status take_back(std::string_view key, std::span<const std::byte> value, Deadline deadline) {
    RONDEL_TRY(store::check_key(key));
    const auto lock = hold_lock(deadline);
    if (!lock.ok()) return lock.status();
    const std::string name = file_name_of(key);
    const auto found = find(name);
    if (!found.ok()) return found.status();
    if (!found->has_value() || !std::ranges::equal(**found, value)) return {};
    if (::unlinkat(directory_.get(), name.c_str(), 0) == 0) return {};
    return system_failure(Code::io_error, "removing a value of store " + path_, errno);
  }

 private:
  void erase_set(std::vector<std::string>& keys) const {
    std::erase_if(keys, [this](const std::string& key) {
      return ::faccessat(directory_.get(), file_name_of(key).c_str(), F_OK, 0) == 0;
    });
  }

  /// A deleted directory looks like one in which no key is set yet; only its path tells.
  Status check_directory() const {
    struct stat by_path {
    }, opened{};
    if (::stat(path_.c_str(), &by_path) != 0)
      return system_failure(Code::unavailable, "the store directory " + path_ + " is gone", errno,
                            "keep it until the job has ended");
    if (::fstat(directory_.get(), &opened) != 0)
      return system_failure(Code::unavailable, "the store directory " + path_, errno);
    if (by_path.st_dev != opened.st_dev || by_path.st_ino != opened.st_ino)
      return Status(Code::unavailable, "the store directory " + path_ + " was replaced while in use",
                    "keep it until the job has ended");
    return {};
  }

  Result<UniqueFd> hold_lock(Deadline callers) const {
    RONDEL_TRY(check_directory());
    UniqueFd lock(::openat(directory_.get(), kLockName, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock) return system_failure(Code::unavailable, "opening the lock of store " + path_, errno);
    const auto since = Deadline::Clock::now();
    const auto deadline = Deadline::in(kLockPatience).or_before(callers);
    BackOff back_off;
    while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR)
        return system_failure(Code::io_error, "locking the store " + path_, errno);
      if (deadline.passed()) {
        const std::chrono::duration<double> waited = Deadline::Clock::now() - since;
        return Status(
            Code::timed_out,
            fmt::format("another process has held the lock of store {} for {:.1f} s", path_, waited.count()),
            fmt::format("fuser -v {}/{} names it; end it if it is stopped, or use another directory", path_,
                        kLockName));
      }
      RONDEL_TRY(check_directory());
      back_off.sleep(deadline);
    }
    return lock;
  }

  /// With the lock held: no other writer uses the temporary name.
  Status replace(const std::string& name, std::span<const std::byte> value) const {
    constexpr const char* kTemporary = "being-written";
    UniqueFd file(::openat(directory_.get(), kTemporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return system_failure(Code::unavailable, "writing in store " + path_, errno);
    RONDEL_TRY(write_all(file.get(), value));
    file.reset();
    if (::renameat(directory_.get(), kTemporary, directory_.get(), name.c_str()) != 0)
      return system_failure(Code::io_error, "renaming a value in store " + path_, errno);
    return {};
  }

  Result<std::optional<Bytes>> find(const std::string& name) const {
    // Opening a named pipe would wait for its writer without limit.
    const UniqueFd file(::openat(directory_.get(), name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno == ENOENT) {
      RONDEL_TRY(check_directory());
      return std::optional<Bytes>();
    }
    if (!file) return system_failure(Code::unavailable, "reading in store " + path_, errno);
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
      return Status(Code::refused, fmt::format("{}/{} is no regular file", path_, name), "remove it");
    auto bytes = read_all(file.get());
    if (!bytes.ok()) return std::move(bytes).status();
    return std::optional<Bytes>(std::move(*bytes));
  }

  const std::string path_;
  const UniqueFd directory_;
};

Result<std::unique_ptr<FileStore>> open_directory(const std::string& directory) {
  UniqueFd opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return system_failure(Code::unavailable, "opening the store directory " + directory, errno);
  struct stat facts {};
  if (::fstat(opened.get(), &facts) != 0)
    return system_failure(Code::unavailable, "looking at the store directory " + directory, errno);
  if ((facts.st_mode & 022U) != 0)
    return Status(Code::refused,
                  fmt::format("the store directory {} has mode {:04o}: other users can write in it",
                              directory, facts.st_mode & 07777U),
                  "run: chmod 700 " + directory);
  if (::geteuid() != 0 && facts.st_uid != ::geteuid() && facts.st_uid != 0)
    return Status(Code::refused,
                  fmt::format("the store directory {} belongs to user {}, this process to user {}", directory,
                              facts.st_uid, ::geteuid()));
  return std::make_unique<FileStore>(directory, std::move(opened));
}

}  // namespace

Result<std::unique_ptr<Store>> open_file_store(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return system_failure(Code::unavailable, "creating the store directory " + directory, errno);
  auto store = open_directory(directory);
  RONDEL_TRY(store);
  return std::unique_ptr<Store>(std::move(store).value());
}

Status take_back(const std::string& directory, std::string_view key, std::span<const std::byte> value,
                 Deadline deadline) {
  auto store = open_directory(directory);
  RONDEL_TRY(store);
  return (*store)->take_back(key, value, deadline);
}

void forget_old_values(const std::string& directory, std::chrono::hours age) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), ::closedir);
  if (!entries) return;
  const int folder = ::dirfd(entries.get());
  // Writers hold it too, so that nothing that is looked at here is replaced before it is removed.
  const UniqueFd lock(::openat(folder, kLockName, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;
  const std::time_t oldest = std::time(nullptr) - std::chrono::seconds(age).count();
  while (const dirent* entry = ::readdir(entries.get())) {
    struct stat facts {};
    if (!std::string_view(entry->d_name).starts_with(kNamePrefix) ||
        ::fstatat(folder, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (S_ISREG(facts.st_mode) && facts.st_mtime < oldest) ::unlinkat(folder, entry->d_name, 0);
  }
}

}  // namespace rondel
