// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "lib/unique_fd.h"

namespace rondel {
namespace {

std::string read_whole(const std::string& path) {
  std::string text;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return text;
  std::array<char, 16384> piece;
  for (;;) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

struct ProcessFacts {
  char state = '?';
  pid_t parent = -1;
  pid_t session = -1;
  bool living() const { return state != 'Z' && state != 'X'; }
};

std::optional<ProcessFacts> facts_of(pid_t pid) {
  const std::string stat = read_whole(fmt::format("/proc/{}/stat", pid));
  const auto name_end = stat.rfind(')');  // the name before it may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  ProcessFacts facts;
  pid_t group = -1;
  if (std::sscanf(stat.c_str() + name_end + 1, " %c %d %d %d", &facts.state, &facts.parent, &group,
                  &facts.session) != 4)
    return std::nullopt;
  return facts;
}

template <class Visit>
void for_each_pid(const Visit& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  if (!directory) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size() && pid > 0) visit(pid);
  }
}

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

/// The value of a variable in what /proc shows of an environment.
std::optional<std::string_view> value_in(std::string_view environment, std::string_view name) {
  for (std::size_t at = 0; at < environment.size();) {
    const std::size_t end = std::min(environment.find('\0', at), environment.size());
    const std::string_view entry = environment.substr(at, end - at);
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
    at = end + 1;
  }
  return std::nullopt;
}

bool has_mark(pid_t pid, const JobMark& mark) {
  if (mark.job.empty()) return false;
  const std::string environment = read_whole(fmt::format("/proc/{}/environ", pid));
  if (value_in(environment, "RONDEL_JOB") != mark.job) return false;
  const auto text = value_in(environment, "RONDEL_RANK").value_or("");
  Rank rank = kNoRank;
  std::from_chars(text.data(), text.data() + text.size(), rank);
  return std::binary_search(mark.ranks.begin(), mark.ranks.end(), rank);
}

bool is_of_job(pid_t pid, const ProcessFacts& facts, const JobMark& mark) {
  return contains(mark.sessions, facts.session) || (mark.adopter > 0 && facts.parent == mark.adopter) ||
         has_mark(pid, mark);
}

}  // namespace

std::size_t signal_job(const JobMark& mark, int signal) {
  std::size_t living = 0;
  for_each_pid([&mark, &living, signal](pid_t pid) {
    if (contains(mark.spared, pid)) return;
    // The handle comes first: if the process ends and its number is used again, the signal goes nowhere.
    const UniqueFd handle(signal == 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    const bool forbidden =
        !handle && (errno == ENOSYS || errno == EPERM);  // an old kernel, a strict container
    const auto facts = facts_of(pid);
    if (!facts || !facts->living() || !is_of_job(pid, *facts, mark)) return;
    ++living;
    if (signal == 0) return;
    if (handle) ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0);
    if (forbidden) ::kill(pid, signal);
  });
  return living;
}

std::vector<pid_t> living_sessions(const JobMark& mark) {
  std::vector<pid_t> sessions;
  for_each_pid([&mark, &sessions](pid_t pid) {
    const auto facts = facts_of(pid);
    if (facts && facts->living() && contains(mark.sessions, facts->session) &&
        !contains(sessions, facts->session))
      sessions.push_back(facts->session);
  });
  return sessions;
}

void collect_orphans(const JobMark& mark) {
  const pid_t self = ::getpid();
  for_each_pid([&mark, self](pid_t pid) {
    const auto facts = facts_of(pid);
    if (!facts || facts->living() || facts->parent != self) return;
    if (contains(mark.sessions, pid) || contains(mark.spared, pid)) return;
    ::waitpid(pid, nullptr, WNOHANG);
  });
}

}  // namespace rondel
