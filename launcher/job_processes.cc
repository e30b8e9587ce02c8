// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_processes.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <sstream>
#include <string_view>

#include "lib/process_facts.h"
#include "lib/system_files.h"
#include "lib/unique_fd.h"

namespace rondel {
namespace {

constexpr std::size_t kMostChildrenBytes = 64 * 1024;

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

bool has_mark(pid_t pid, const JobMark& mark) {
  if (mark.job.empty()) return false;
  const std::string environment = environment_of(pid);
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
    const auto facts = process_facts(pid);
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
    const auto facts = process_facts(pid);
    if (facts && facts->living() && contains(mark.sessions, facts->session) &&
        !contains(sessions, facts->session))
      sessions.push_back(facts->session);
  });
  return sessions;
}

std::vector<pid_t> adopted_sessions(const JobMark& mark) {
  const pid_t own_session = ::getsid(0);
  std::istringstream children(
      whole_text(fmt::format("/proc/self/task/{}/children", ::gettid()), kMostChildrenBytes));
  std::vector<pid_t> sessions;
  for (pid_t pid = -1; children >> pid;) {
    const auto facts = process_facts(pid);
    if (!facts || !facts->living() || contains(mark.spared, pid) || facts->session == own_session) continue;
    if (!contains(mark.sessions, facts->session) && !contains(sessions, facts->session))
      sessions.push_back(facts->session);
  }
  return sessions;
}

void collect_orphans(const JobMark& mark) {
  const pid_t self = ::getpid();
  for_each_pid([&mark, self](pid_t pid) {
    const auto facts = process_facts(pid);
    if (!facts || facts->living() || facts->parent != self) return;
    if (contains(mark.sessions, pid) || contains(mark.spared, pid)) return;
    ::waitpid(pid, nullptr, WNOHANG);
  });
}

}  // namespace rondel
