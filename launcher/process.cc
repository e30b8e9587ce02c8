// SPDX-License-Identifier: Apache-2.0
#include "launcher/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <string_view>
#include <utility>

#include "lib/deadline.h"
#include "lib/unique_fd.h"

namespace rondel {
namespace {

/// What a child that could not become the program tells its parent.
struct StartFailure {
  enum class Step : int { directory, descriptors, cores, program } step;
  int error;
};

/// Everything that the child needs between fork and exec, made before the fork: the launcher has other
/// threads, so the child may only make system calls.
struct ChildPlan {
  const ProcessRequest& request;
  std::vector<std::string> places;  // paths at which the program may be, in order
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::vector<unsigned long> cores;  // empty: the parent's
  pid_t parent;
  int report_fd;
};

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// As execvp would look, but with the search path of the request instead of our own.
std::vector<std::string> places_of(const ProcessRequest& request) {
  const std::string& program = request.words.front();
  if (program.empty() || program.find('/') != std::string::npos) return {program};
  std::vector<std::string> places;
  std::string_view rest = request.search_path;
  for (bool more = true; more;) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string_view folder = rest.substr(0, colon);
    places.push_back(fmt::format("{}/{}", folder.empty() ? "." : folder, program));  // empty: the directory
    more = colon < rest.size();
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return places;
}

/// Returns only with errno set: of all failures the one that says most.
void run_program(const ChildPlan& plan) {
  bool forbidden = false;
  for (const std::string& place : plan.places) {
    ::execvpe(place.c_str(), plan.argv.data(), plan.envp.data());  // runs scripts without "#!" as well
    forbidden = forbidden || errno == EACCES;
    if (errno != EACCES && errno != ENOENT && errno != ENOTDIR) return;
  }
  if (forbidden) errno = EACCES;
}

[[noreturn]] void report_and_exit(int report_fd, StartFailure::Step step) {
  const StartFailure failure{step, errno};
  [[maybe_unused]] const auto wrote = ::write(report_fd, &failure, sizeof failure);
  ::_exit(127);
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  const ProcessRequest& request = plan.request;
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);  // the launcher died before the line above took effect
  if (!request.directory.empty() && ::chdir(request.directory.c_str()) != 0)
    report_and_exit(plan.report_fd, StartFailure::Step::directory);
  if (::dup2(request.standard_input, 0) < 0 || ::dup2(request.standard_output, 1) < 0 ||
      ::dup2(request.standard_error, 2) < 0 ||
      (request.inherited >= 0 && ::fcntl(request.inherited, F_SETFD, 0) != 0))
    report_and_exit(plan.report_fd, StartFailure::Step::descriptors);
  if (!plan.cores.empty() && ::sched_setaffinity(0, plan.cores.size() * sizeof(unsigned long),
                                                 reinterpret_cast<const cpu_set_t*>(plan.cores.data())) != 0)
    report_and_exit(plan.report_fd, StartFailure::Step::cores);
  ::setrlimit(RLIMIT_NOFILE, &request.descriptor_limit);
  ::sigprocmask(SIG_SETMASK, &request.signal_mask, nullptr);
  run_program(plan);
  report_and_exit(plan.report_fd, StartFailure::Step::program);
}

Status explain(const StartFailure& failure, const ProcessRequest& request) {
  switch (failure.step) {
    case StartFailure::Step::directory:
      return system_failure(Code::unavailable, fmt::format("changing to directory {}", request.directory),
                            failure.error, "create it or correct --wdir");
    case StartFailure::Step::descriptors:
      return system_failure(Code::out_of_resources, "connecting input and output", failure.error);
    case StartFailure::Step::cores:
      return system_failure(Code::unavailable, fmt::format("binding to cpus {}", cpu_list(request.cpus)),
                            failure.error,
                            "they were there a moment ago; has the cpuset of this host changed?");
    case StartFailure::Step::program:
      break;
  }
  const std::string& program = request.words.front();
  const bool by_path = program.find('/') != std::string::npos;
  std::string hint;
  if (failure.error == ENOENT)
    hint = by_path ? "check the path, and the interpreter in a script's first line"
                   : fmt::format("it is in no directory of PATH; one of the ranks' own directory is ./{}",
                                 program);
  if (failure.error == EACCES) hint = fmt::format("is it executable? chmod +x {}", program);
  if (failure.error == E2BIG)
    hint = "arguments and environment together are too long; --env-none shortens them";
  return system_failure(failure.error == ENOMEM ? Code::out_of_resources : Code::unavailable,
                        fmt::format("running {}", program), failure.error, std::move(hint));
}

Status fork_failure(int error) {
  return system_failure(Code::out_of_resources, "fork", error,
                        "the limit on processes or memory is reached; ulimit -u shows the one of this user");
}

/// Waits until the child runs its program (false) or has told why it cannot (true).
Result<bool> await_start(int report_fd, StartFailure& failure) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(60));
  pollfd ready{.fd = report_fd, .events = POLLIN, .revents = 0};
  while (::poll(&ready, 1, deadline.left_ms()) <= 0)
    if (deadline.passed())
      return Status(Code::timed_out, "the program has not begun to run after 60 s",
                    "is the file system that holds it alive?");
  return ::read(report_fd, &failure, sizeof failure) == static_cast<ssize_t>(sizeof failure);
}

}  // namespace

Result<Process> Process::spawn(const ProcessRequest& request) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_failure(Code::out_of_resources, "pipe", errno);
  const UniqueFd report(ends[0]);
  UniqueFd report_in_child(ends[1]);
  const ChildPlan plan{request,
                       places_of(request),
                       pointers_to(request.words),
                       pointers_to(request.environment),
                       mask_of(request.cpus),
                       ::getpid(),
                       report_in_child.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return fork_failure(errno);
  if (pid == 0) run_child(plan);
  Process process(pid);
  report_in_child.reset();

  StartFailure failure{};
  const auto told = await_start(report.get(), failure);
  if (!told.ok()) return told.status();
  if (*told) return explain(failure, request);
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), ending_(std::exchange(other.ending_, std::nullopt)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    finish();
    pid_ = std::exchange(other.pid_, -1);
    ending_ = std::exchange(other.ending_, std::nullopt);
  }
  return *this;
}

Process::~Process() { finish(); }

void Process::finish() noexcept {
  if (pid_ <= 0) return;
  if (::kill(-pid_, SIGKILL) != 0) ::kill(pid_, SIGKILL);  // an adopted child may lead no group yet
  // A killed process ends at once, unless a system call holds it; then init collects it later.
  const Deadline deadline = Deadline::in(std::chrono::seconds(2));
  while (::waitpid(pid_, nullptr, WNOHANG) == 0 && !deadline.passed()) {
    const timespec pause{.tv_sec = 0, .tv_nsec = 500'000};
    ::nanosleep(&pause, nullptr);
  }
  pid_ = -1;
}

std::optional<Ending> Process::ending() {
  if (ending_) return ending_;
  siginfo_t ended{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0)
    return std::nullopt;
  ending_ = ended.si_code == CLD_EXITED ? Ending{ended.si_status, 0} : Ending{0, ended.si_status};
  return ending_;
}

void Process::signal_group(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

}  // namespace rondel
