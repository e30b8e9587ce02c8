// SPDX-License-Identifier: Apache-2.0
#include "tests/support/system_calls.h"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace rondel::test {
namespace {

// Arguments that nobody else gives to this call, which does nothing for them but fail.
constexpr long kMark = SYS_getpgid;
constexpr std::uint64_t kStart = 0x52000001;
constexpr std::uint64_t kStop = 0x52000002;

void mark(std::uint64_t which) { static_cast<void>(::syscall(kMark, which)); }

[[noreturn]] void run_traced(const std::function<int()>& work) {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(127);
  ::raise(SIGSTOP);
  ::_exit(work());
}

// From one stop to the next, until the child has gone.
void follow(pid_t child, SystemCalls& calls) {
  bool counting = false;
  int signal = 0;
  for (int status = 0;;) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    if (::waitpid(child, &status, 0) != child) return;
    if (!WIFSTOPPED(status)) {
      calls.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      return;
    }
    signal = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
    if (signal != 0) continue;
    __ptrace_syscall_info info{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) <= 0) continue;
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    const auto number = static_cast<long>(info.entry.nr);
    if (number == kMark && info.entry.args[0] == kStart)
      counting = true;
    else if (number == kMark && info.entry.args[0] == kStop)
      counting = false;
    else if (counting)
      ++calls.counts[number];
  }
}

}  // namespace

std::uint64_t SystemCalls::of(long number) const {
  const auto found = counts.find(number);
  return found == counts.end() ? 0 : found->second;
}

std::string SystemCalls::others(std::initializer_list<long> named) const {
  std::string text;
  for (const auto& [number, count] : counts)
    if (std::find(named.begin(), named.end(), number) == named.end())
      text += fmt::format("{}{} of number {}", text.empty() ? "" : ", ", count, number);
  return text;
}

SystemCalls count_system_calls(const std::function<int()>& work) {
  SystemCalls calls;
  const pid_t child = ::fork();
  if (child == 0) run_traced(work);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return calls;
  calls.traced = ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0;
  follow(child, calls);
  return calls;
}

void start_counting() { mark(kStart); }
void stop_counting() { mark(kStop); }

}  // namespace rondel::test
