// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "lib/unique_fd.h"

namespace rondel {
namespace {

constexpr std::size_t kHexDigits = 2 * Secret::kBytes;
constexpr std::chrono::seconds kDescriptorPatience{10};

int hex_value(std::byte digit) {
  const char c = static_cast<char>(digit);
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool all_hex(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return hex_value(b) >= 0; });
}

/// Waits for the next byte of a pipe or socket; a regular file is always ready.
Status await_readable(int fd, Deadline deadline) {
  pollfd entry{fd, POLLIN, 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, deadline.left_ms());
    if (ready > 0) return {};
    if (ready == 0)
      return Status(Code::timed_out, "the job secret did not arrive on its descriptor in 10 seconds");
    if (errno != EINTR) return system_failure(Code::io_error, "waiting for the job secret", errno);
  }
}

/// Fills `into` until end of file, or until what is there is a secret for certain.
Result<std::size_t> read_secret(int fd, std::span<std::byte> into) {
  const auto deadline = Deadline::in(kDescriptorPatience);
  std::size_t have = 0;
  while (have < into.size()) {
    if (have >= Secret::kBytes && !all_hex(into.first(have))) break;
    RONDEL_TRY(await_readable(fd, deadline));
    const ssize_t got = ::read(fd, into.data() + have, into.size() - have);
    if (got == 0) break;
    if (got < 0 && errno != EINTR && errno != EAGAIN)
      return system_failure(Code::io_error, fmt::format("reading the job secret from descriptor {}", fd),
                            errno);
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  return have;
}

}  // namespace

Secret::~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

Result<Secret> Secret::generate() {
  Secret secret;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(secret.bytes_.data()), static_cast<int>(kBytes)) != 1)
    return Status(Code::unavailable, "the system's random generator gave no bytes for a job secret");
  return secret;
}

Result<Secret> Secret::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() != kBytes)
    return Status(Code::invalid_argument,
                  fmt::format("a job secret has {} bytes, not {}", kBytes, bytes.size()));
  Secret secret;
  std::copy(bytes.begin(), bytes.end(), secret.bytes_.begin());
  return secret;
}

Result<Secret> Secret::from_descriptor(int fd) {
  const UniqueFd owned(fd);
  // A rank may start a second program that inherits the same open file. A pipe has no beginning to go back
  // to.
  ::lseek(fd, 0, SEEK_SET);
  std::array<std::byte, kHexDigits> text{};
  const auto read = read_secret(fd, text);
  if (!read.ok()) return read.status();
  Secret secret;
  const auto have = std::span(text).first(*read);
  const bool hex = have.size() == kHexDigits && all_hex(have);
  const bool raw = have.size() == kBytes && !all_hex(have);
  if (hex)
    for (std::size_t i = 0; i < kBytes; ++i)
      secret.bytes_[i] = static_cast<std::byte>(hex_value(have[2 * i]) * 16 + hex_value(have[2 * i + 1]));
  if (raw) std::copy_n(have.begin(), kBytes, secret.bytes_.begin());
  OPENSSL_cleanse(text.data(), text.size());
  if (!hex && !raw)
    return Status(Code::invalid_argument,
                  fmt::format("a job secret is {} raw bytes or {} hexadecimal digits; found {} bytes", kBytes,
                              kHexDigits, *read));
  return secret;
}

Result<Secret> Secret::from_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return system_failure(Code::unavailable, "opening the secret file " + path, errno);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return system_failure(Code::io_error, "looking at " + path, errno);
  if (!S_ISREG(facts.st_mode)) return Status(Code::invalid_argument, path + " is not a file");
  // Root may let a group in: so do the volumes of secrets in pods that run as another user.
  const mode_t others = facts.st_uid == 0 && ::geteuid() != 0 ? 037U : 077U;
  if ((facts.st_mode & others) != 0)
    return Status(Code::refused,
                  fmt::format("the secret file {} has mode {:04o}: others can read or change it", path,
                              facts.st_mode & 07777U),
                  "run: chmod 600 " + path);
  auto secret = from_descriptor(fd.release());
  if (!secret.ok()) return std::move(secret).status().with(path);
  return secret;
}

}  // namespace rondel
