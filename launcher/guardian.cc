// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "lib/deadline.h"

namespace rondel {
namespace {

constexpr pid_t kDismissal = 0;  // on the pipe, where a session's number could be

/// Reads sessions until the pipe ends; true when the agent has taken its leave.
bool listen(int pipe, JobMark& mark) {
  for (;;) {
    pid_t session = -1;
    const ssize_t got = ::read(pipe, &session, sizeof session);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof session)) return false;
    if (session == kDismissal) return true;
    if (session > 0) mark.sessions.push_back(session);
    if (session < 0) std::erase(mark.sessions, -session);
  }
}

/// Signals the job's processes until none is left. A session that has died out is forgotten at once, so that
/// a stranger who gets its number later is safe.
void end_job(JobMark& mark, std::chrono::milliseconds grace) {
  const Deadline kill_at = Deadline::in(grace);
  const Deadline give_up_at = Deadline::in(grace + std::chrono::seconds(10));
  signal_job(mark, SIGTERM);
  while (!give_up_at.passed()) {
    mark.sessions = living_sessions(mark);
    if (signal_job(mark, kill_at.passed() ? SIGKILL : 0) == 0) return;
    const timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

[[noreturn]] void run_guardian(int pipe, JobMark mark, std::chrono::milliseconds grace) {
  ::setsid();  // the terminal's signals are not for it
  ::prctl(PR_SET_NAME, "rondelrun-guard");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  [[maybe_unused]] const int moved = ::chdir("/");
  // It must hold none of the agent's descriptors: the launcher waits for the end of its stream.
  ::dup2(pipe, 0);
  ::close_range(1, ~0U, 0);
  mark.spared = {::getpid()};
  if (!listen(0, mark)) end_job(mark, grace);
  ::_exit(0);
}

}  // namespace

Result<Guardian> Guardian::start(JobMark mark, std::chrono::milliseconds grace) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_failure(Code::out_of_resources, "pipe", errno);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return system_failure(Code::out_of_resources, "fork", errno);
  if (pid == 0) run_guardian(read_end.get(), std::move(mark), grace);
  return Guardian(pid, std::move(write_end));
}

Guardian::Guardian(Guardian&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pipe_(std::move(other.pipe_)) {}

Guardian::~Guardian() {
  if (pid_ <= 0) return;
  protect(kDismissal);
  pipe_.reset();
  const Deadline deadline = Deadline::in(std::chrono::seconds(1));
  const Deadline give_up_at = Deadline::in(std::chrono::seconds(3));
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    // It is stopped, or starved: the job is over, so that nothing is left for it to do.
    if (deadline.passed()) ::kill(pid_, SIGKILL);
    const timespec pause{.tv_sec = 0, .tv_nsec = deadline.passed() ? 5'000'000 : 200'000};
    ::nanosleep(&pause, nullptr);
    if (give_up_at.passed()) return;
  }
}

void Guardian::protect(pid_t session) const {
  [[maybe_unused]] const auto wrote =
      ::write(pipe_.get(), &session, sizeof session);  // a dead guardian: none to tell
}

}  // namespace rondel
