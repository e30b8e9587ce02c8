// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/torchrun.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>

#include "bindings/c/meeting_point.h"
#include "lib/config.h"

namespace rondel::c {
namespace {

bool names_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string text_of(const char* name) { return value_of(environment_variable, name); }

/// A directory that belongs to this user and exists.
Result<std::string> private_parent(Sharing sharing) {
  const char* runtime = sharing == Sharing::on_this_host ? environment_variable("XDG_RUNTIME_DIR") : nullptr;
  if (runtime != nullptr && *runtime == '/') return std::string(runtime);
  const char* home = environment_variable("HOME");
  if (home == nullptr || *home != '/')
    return Status(Code::unavailable,
                  "neither XDG_RUNTIME_DIR nor HOME names a place where the ranks of this host can meet",
                  "set XDG_RUNTIME_DIR to a directory of your own, or RONDEL_SECRET_FILE");
  const std::string cache = fmt::format("{}/.cache", home);
  if (::mkdir(cache.c_str(), 0700) != 0 && errno != EEXIST)
    return system_failure(Code::unavailable, "creating " + cache, errno,
                          "set XDG_RUNTIME_DIR to a directory of your own");
  return cache;
}

Result<std::string> numeric_address(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int error = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
  std::array<char, NI_MAXHOST> text{};
  if (error == 0)
    error = ::getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0,
                          NI_NUMERICHOST);
  if (error == 0) return std::string(text.data());
  return Status(Code::unavailable, fmt::format("MASTER_ADDR \"{}\": {}", host, ::gai_strerror(error)),
                "set it to a name or address of rank 0's host");
}

}  // namespace

bool TorchrunMaster::is_loopback() const { return names_loopback(host); }

bool has_torchrun_master() { return !text_of("MASTER_ADDR").empty() && !text_of("MASTER_PORT").empty(); }

Result<std::uint16_t> master_port(std::optional<std::uint16_t> usual) {
  const std::string text = text_of("MASTER_PORT");
  if (text.empty() && usual) return static_cast<std::uint16_t>(*usual + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0 || port == 65535)
    return Status(Code::invalid_argument,
                  fmt::format("MASTER_PORT is \"{}\", expected a number from 1 to 65534", text),
                  "Rondel's rank 0 listens on MASTER_PORT + 1");
  return static_cast<std::uint16_t>(port + 1);
}

Result<TorchrunMaster> torchrun_master() {
  if (!has_torchrun_master())
    return Status(
        Code::invalid_argument,
        "there are several ranks, but neither RONDEL_STORE nor MASTER_ADDR and MASTER_PORT say where they "
        "meet",
        "start with rondelrun or torchrun, or set RONDEL_STORE=file:///directory to one that all ranks see");
  const auto port = master_port({});
  RONDEL_TRY(port);
  return TorchrunMaster{text_of("MASTER_ADDR"), *port};
}

Result<std::string> resolve(const TorchrunMaster& master, Rank rank, bool one_host, const std::string& net,
                            Deadline deadline) {
  constexpr std::chrono::milliseconds kPause{200};
  if (master.is_pod) return rank == 0 ? reachable_address({}, false, net) : master.host;
  for (;;) {
    auto numeric = numeric_address(master.host);
    const bool misleading = numeric.ok() && names_loopback(*numeric) && !one_host && !master.is_loopback();
    if (misleading) return reachable_address({}, false, net);
    if (rank != 0) return master.host;
    if (numeric.ok() || deadline.passed()) return numeric;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kPause, deadline.left()));
  }
}

Result<std::string> private_directory(Sharing sharing) {
  const auto parent = private_parent(sharing);
  RONDEL_TRY(parent);
  const std::string path = *parent + "/rondel";
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_failure(Code::unavailable,
                          fmt::format("creating {}, where the ranks of this host meet", path), errno,
                          "set XDG_RUNTIME_DIR to a directory of your own");
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0)
    return system_failure(Code::unavailable, fmt::format("looking at {}", path), errno);
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid() || (facts.st_mode & 077U) != 0)
    return Status(
        Code::refused,
        fmt::format("{}, where the ranks of this host meet, is no directory of this user's alone", path),
        "remove it, or set XDG_RUNTIME_DIR to a directory of your own");
  return path;
}

}  // namespace rondel::c
