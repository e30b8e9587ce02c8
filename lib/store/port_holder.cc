// SPDX-License-Identifier: Apache-2.0
#include "lib/store/port_holder.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

namespace rondel::store {
namespace {

namespace fs = std::filesystem;

/// Links in /proc/PID/fd of the sockets that listen on `port`: "socket:[12345]".
std::set<std::string> listening_sockets(std::uint16_t port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  std::set<std::string> links;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // the headings
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >>
          inode;
      if (state == "0A" && local.ends_with(wanted)) links.insert("socket:[" + inode + "]");
    }
  }
  return links;
}

bool holds(const fs::path& process, const std::set<std::string>& links) {
  std::error_code error;
  for (fs::directory_iterator fd(process / "fd", error), end; !error && fd != end; fd.increment(error)) {
    std::error_code unreadable;
    if (links.contains(fs::read_symlink(fd->path(), unreadable).string())) return true;
  }
  return false;
}

}  // namespace

std::string describe_port_holder(std::uint16_t port) {
  const auto links = listening_sockets(port);
  if (links.empty()) return {};
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string pid = entry->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos || !holds(entry->path(), links)) continue;
    std::ifstream file(entry->path() / "comm");
    std::string command;
    std::getline(file, command);
    return fmt::format(", which process {} ({}) holds", pid, command);
  }
  return {};
}

}  // namespace rondel::store
