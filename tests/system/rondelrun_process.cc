// SPDX-License-Identifier: Apache-2.0
#include "tests/system/rondelrun_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <sstream>

#include "lib/deadline.h"
#include "tests/system/rondelrun_support.h"

namespace rondel::test {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A pipe that holds `text` and then ends.
UniqueFd input_pipe(const std::string& text) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd writer(ends[1]);
  REQUIRE(::write(writer.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  return UniqueFd(ends[0]);
}

struct OutputPipe {
  OutputPipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
  UniqueFd reader, writer;
};

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Whether `wanted` has another value for the variable of `entry`.
bool replaced(const std::string& entry, const std::vector<std::string>& wanted) {
  const std::string start = entry.substr(0, entry.find('=') + 1);
  return std::any_of(wanted.begin(), wanted.end(),
                     [&start](const std::string& each) { return each.starts_with(start); });
}

/// Looks every 10 ms.
template <class Condition>
bool holds_within(std::chrono::seconds limit, const Condition& condition) {
  const Deadline deadline = Deadline::in(limit);
  while (!condition()) {
    if (deadline.passed()) return false;
    const timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

void apply(const LaunchSetup& setup) {
  ::close_range(3, ~0U, 0);  // what the test's own parent left open is not part of the picture
  // Nor what it ignores: under nohup, or in the background of a script, that would be some of these.
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
  if (setup.ignore_hangup) ::signal(SIGHUP, SIG_IGN);
  if (setup.descriptor_limit > 0) {
    const rlimit limit{static_cast<rlim_t>(setup.descriptor_limit),
                       static_cast<rlim_t>(setup.descriptor_limit)};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace

RunningLauncher::RunningLauncher(const LaunchSetup& setup)
    : mark_(fmt::format("RONDEL_TEST_MARK={}-{}", ::getpid(), std::random_device{}())),
      start_(now_seconds()) {
  std::vector<std::string> words{RONDELRUN_PATH};
  words.insert(words.end(), setup.arguments.begin(), setup.arguments.end());
  std::vector<std::string> variables{mark_};
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!replaced(*entry, setup.environment)) variables.emplace_back(*entry);
  variables.insert(variables.end(), setup.environment.begin(), setup.environment.end());
  const std::vector<char*> argv = pointers_to(words), envp = pointers_to(variables);

  OutputPipe out, err;
  const UniqueFd in = input_pipe(setup.input);
  int terminal = -1;
  pid_ = setup.terminal ? ::forkpty(&terminal, nullptr, nullptr, nullptr) : ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    if (!setup.terminal) {
      ::setpgid(0, 0);  // a job of a shell's, which can stop it and have it go on
      ::dup2(in.get(), 0);
      ::dup2(out.writer.get(), 1);
      ::dup2(setup.one_pipe ? out.writer.get() : err.writer.get(), 2);
    }
    apply(setup);
    ::execve(argv.front(), argv.data(), envp.data());
    ::_exit(127);
  }
  if (setup.terminal) {
    terminal_ = UniqueFd(terminal);
    out_ = UniqueFd(::fcntl(terminal, F_DUPFD_CLOEXEC, 3));
  } else {
    out_ = std::move(out.reader);
    if (!setup.one_pipe) err_ = std::move(err.reader);
  }
}

RunningLauncher::~RunningLauncher() {
  for (const pid_t process : processes()) ::kill(process, SIGKILL);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

void RunningLauncher::drain(UniqueFd& fd, std::string& text) {
  std::array<char, 65536> piece;
  const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
  if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR)) fd.reset();  // a terminal whose other side is closed gives EIO
}

bool RunningLauncher::read_some(int timeout_ms) {
  std::array<pollfd, 2> ready{pollfd{out_.get(), POLLIN, 0}, pollfd{err_.get(), POLLIN, 0}};
  if (!out_ && !err_) return false;
  if (::poll(ready.data(), ready.size(), timeout_ms) <= 0) return true;
  if (ready[0].revents != 0) drain(out_, output_);
  if (ready[1].revents != 0) drain(err_, error_);
  return true;
}

bool RunningLauncher::wait_for_output(const std::string& text, int times) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  for (;;) {
    int found = 0;
    for (std::size_t at = output_.find(text); at != std::string::npos;
         at = output_.find(text, at + text.size()))
      ++found;
    if (found >= times) return true;
    if (deadline.passed() || !read_some(100)) return false;
  }
}

bool RunningLauncher::wait_for_error(const std::string& text) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  while (error_.find(text) == std::string::npos)
    if (deadline.passed() || !read_some(100)) return false;
  return true;
}

int RunningLauncher::wait() {
  const Deadline deadline = Deadline::in(std::chrono::seconds(30));
  while ((out_ || err_) && !deadline.passed()) read_some(100);
  while (!deadline.passed()) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) {
      const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
      ::nanosleep(&pause, nullptr);
      continue;
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  return -1;
}

void RunningLauncher::signal(int number) const { REQUIRE(::kill(pid_, number) == 0); }

void RunningLauncher::type(const std::string& keys) const {
  REQUIRE(::write(terminal_.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
}

std::vector<std::string> RunningLauncher::output_lines() const {
  std::vector<std::string> lines;
  std::istringstream stream(output_);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

double RunningLauncher::seconds() const { return now_seconds() - start_; }

std::vector<pid_t> RunningLauncher::processes() const {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  while (const dirent* entry = ::readdir(directory.get())) {
    const pid_t process = std::atoi(entry->d_name);
    if (process <= 0 || file_text(fmt::format("/proc/{}/environ", process)).find(mark_) == std::string::npos)
      continue;
    found.push_back(process);  // a zombie has no environment, so these all live
  }
  return found;
}

bool RunningLauncher::nothing_is_left() const {
  return holds_within(std::chrono::seconds(10), [this] { return processes().empty(); });
}

bool RunningLauncher::wait_for_processes(std::size_t count) const {
  return holds_within(std::chrono::seconds(20), [this, count] { return processes().size() == count; });
}

bool RunningLauncher::wait_for_stopped(std::size_t count) const {
  return holds_within(std::chrono::seconds(20), [this, count] {
    std::size_t stopped = 0;
    for (const pid_t process : processes()) {
      const std::string stat = file_text(fmt::format("/proc/{}/stat", process));
      const auto name_end = stat.rfind(')');
      stopped += name_end != std::string::npos && stat.compare(name_end, 3, ") T") == 0 ? 1 : 0;
    }
    return stopped == count;
  });
}

bool RunningLauncher::ranks_change_within(std::chrono::milliseconds time) const {
  const std::vector<pid_t> before = processes();
  const Deadline deadline = Deadline::in(time);
  while (!deadline.passed()) {
    if (processes() != before) return true;
    const timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return false;
}

bool RunningLauncher::wait_until_idle() const {
  std::string before;
  int unchanged = 0;
  return holds_within(std::chrono::seconds(20), [this, &before, &unchanged] {
    std::string counters = file_text(fmt::format("/proc/{}/io", pid_));
    unchanged = counters == before && counters.find("wchar: 0\n") == std::string::npos ? unchanged + 1 : 0;
    before = std::move(counters);
    return unchanged >= 20;
  });
}

std::size_t RunningLauncher::resident_bytes() const {
  std::size_t total = 0, resident = 0;
  std::istringstream(file_text(fmt::format("/proc/{}/statm", pid_))) >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace rondel::test
