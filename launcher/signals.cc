// SPDX-License-Identifier: Apache-2.0
#include "launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rondel {
namespace {

bool ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Result<SignalSource> SignalSource::create() {
  // A parent may have left SIGCHLD ignored; the kernel would then collect our ranks before we see how they
  // ended.
  struct sigaction child {};
  child.sa_handler = SIG_DFL;
  child.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &child, nullptr);

  sigset_t taken, original;
  ::sigemptyset(&taken);
  // SIGTERM is always ours: it is how schedulers end a job.
  for (const int signal : {SIGCHLD, SIGTERM}) ::sigaddset(&taken, signal);
  for (const int signal : {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP})
    if (!ignored(signal)) ::sigaddset(&taken, signal);
  sigset_t blocked = taken;
  ::sigaddset(&blocked, SIGPIPE);  // a write tells of a closed pipe by its result
  ::sigaddset(&blocked, SIGXFSZ);  // and of a file that has become too large
  if (::pthread_sigmask(SIG_BLOCK, &blocked, &original) != 0)
    return system_failure(Code::internal, "pthread_sigmask", errno);
  UniqueFd fd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return system_failure(Code::out_of_resources, "signalfd", errno);
  return SignalSource(std::move(fd), original);
}

std::vector<int> SignalSource::take() const {
  std::vector<int> signals;
  signalfd_siginfo one{};
  while (::read(fd_.get(), &one, sizeof one) == static_cast<ssize_t>(sizeof one))
    signals.push_back(static_cast<int>(one.ssi_signo));
  return signals;
}

}  // namespace rondel
