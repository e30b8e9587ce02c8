// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process_world.h"
#include "tests/support/sanitizers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "lib/check.h"

namespace rondel::test {

namespace {

int wait_readable(int fd, Deadline deadline) {
  pollfd item{.fd = fd, .events = POLLIN, .revents = 0};
  int ready = 0;
  do ready = ::poll(&item, 1, deadline.left_ms());
  while (ready < 0 && errno == EINTR);
  return ready;
}

std::ptrdiff_t thread_count() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads));
}

// A lock that another thread holds at the fork stays held in the child for good. A joined thread is listed
// until the kernel has put it away.
void require_one_thread() {
#if !UNDER_THREAD_SANITIZER  // which has a thread of its own, and says itself when there are others
  const auto deadline = Deadline::in(std::chrono::seconds(2));
  while (thread_count() > 1) {
    if (deadline.passed())
      throw std::logic_error("ranks can not be forked here: this process has several threads");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
#endif
}

[[noreturn]] void run_child(Rank rank, Rank ranks, int fd, const ProcessWorld::Body& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  RankTest test(rank, ranks);
  const Voice voice(fd);
  test.run([&body, &voice](RankTest& self) { body(self, voice); });
  for (const std::string& failure : test.failures()) voice.say(failure);
  std::fflush(nullptr);
  ::_exit(test.failures().empty() ? 0 : 1);
}

}  // namespace

void Voice::say(std::string_view line) const {
  std::string whole = fmt::format("{}\n", line);
  std::string_view rest = whole;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return;  // the test has gone
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

ProcessWorld::ProcessWorld(Rank ranks, const Body& body) {
  require_one_thread();
  for (Rank rank = 0; rank < ranks; ++rank) processes_.push_back(start(rank, ranks, body));
}

ProcessWorld::~ProcessWorld() {
  for (Process& process : processes_) {
    if (process.reaped) continue;
    ::kill(process.pid, SIGKILL);
    reap(process);
  }
}

ProcessWorld::Process ProcessWorld::start(Rank rank, Rank ranks, const Body& body) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  Process process;
  process.words = UniqueFd(ends[0]);
  UniqueFd child_end(ends[1]);
  std::fflush(nullptr);
  process.pid = ::fork();
  if (process.pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process.pid == 0) run_child(rank, ranks, child_end.get(), body);
  process.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  return process;
}

pid_t ProcessWorld::pid_of(Rank rank) const { return processes_.at(static_cast<std::size_t>(rank)).pid; }

ProcessWorld::Process& ProcessWorld::at(Rank rank) { return processes_.at(static_cast<std::size_t>(rank)); }

void ProcessWorld::signal(Rank rank, int signal) {
  if (!at(rank).reaped) ::kill(at(rank).pid, signal);
}

// Takes in what the process says next; returns after some words, its silence, or the deadline.
void ProcessWorld::listen(Process& process, Deadline deadline) {
  if (process.silent || wait_readable(process.words.get(), deadline) <= 0) return;
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(process.words.get(), buffer.data(), buffer.size());
  if (count > 0) process.heard.append(buffer.data(), static_cast<std::size_t>(count));
  if (count == 0) process.silent = true;
}

bool ProcessWorld::heard(Rank rank, std::string_view line, Deadline deadline) {
  Process& process = at(rank);
  const std::string whole = fmt::format("{}\n", line);
  while (true) {
    const std::size_t at_byte = process.heard.find(whole);
    if (at_byte == 0 || (at_byte != std::string::npos && process.heard[at_byte - 1] == '\n')) return true;
    if (process.silent || deadline.passed()) return false;
    listen(process, deadline);
  }
}

void ProcessWorld::reap(Process& process) {
  int status = 0;
  while (::waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
  }
  process.reaped = true;
  if (WIFEXITED(status)) process.ending.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) process.ending.signal = WTERMSIG(status);
}

Ending ProcessWorld::wait(Rank rank, Deadline deadline) {
  Process& process = at(rank);
  if (process.reaped) return process.ending;
  while (!process.silent && !deadline.passed()) listen(process, deadline);
  process.ending.ended = wait_readable(process.pidfd.get(), deadline) > 0;
  if (!process.ending.ended) ::kill(process.pid, SIGKILL);
  reap(process);
  process.ending.words = process.heard;
  return process.ending;
}

std::vector<Ending> ProcessWorld::wait_all(Deadline deadline) {
  std::vector<Ending> endings;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank)
    endings.push_back(wait(static_cast<Rank>(rank), deadline));
  return endings;
}

std::string failures_of(const std::vector<Ending>& endings, Rank excepted) {
  std::string text;
  for (std::size_t rank = 0; rank < endings.size(); ++rank) {
    const Ending& ending = endings[rank];
    if (static_cast<Rank>(rank) == excepted || (ending.ended && ending.exit_code == 0)) continue;
    if (!ending.ended) text += fmt::format("rank {} was still running at the deadline\n", rank);
    if (ending.ended && ending.signal != 0)
      text += fmt::format("rank {} died of signal {}\n", rank, ending.signal);
    text += ending.words;
  }
  return text;
}

}  // namespace rondel::test
