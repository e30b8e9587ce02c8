// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/pmi.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "lib/printable.h"

namespace rondel::c {
namespace {

constexpr std::size_t kMostLineBytes = 16'384;
constexpr std::chrono::seconds kGoodbyePatience{1};

constexpr const char* kLauncherGone = "look at the launcher's own output";
constexpr const char* kWaysOut =
    "to run alone, unset PMI_FD, PMI_RANK and PMI_SIZE; to run as a rank, start the program itself by the "
    "launcher, as the only user of PMI in its process";

/// The process's own; never destroyed, because atexit handlers of others may come later.
struct Session {
  std::mutex mutex;
  Pmi* pmi = nullptr;
  pid_t process = -1;
};

Session& session() {
  static auto* const kSession = new Session;
  return *kSession;
}

// A child made by fork() does not speak for its parent.
void say_goodbye() {
  Session& ours = session();
  if (ours.pmi != nullptr && ours.process == ::getpid()) ours.pmi->finalize();
}

int milliseconds_left(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

Status wait_for(int descriptor, short events, Deadline deadline) {
  for (;;) {
    pollfd item{descriptor, events, 0};
    const int ready = ::poll(&item, 1, milliseconds_left(deadline));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR)
      return system_failure(Code::io_error, "waiting for the launcher (PMI)", errno);
    if (deadline.passed())
      return Status(Code::timed_out, "the launcher did not answer in time (PMI)",
                    "see whether it is stopped or its host overloaded, or raise RONDEL_START_TIMEOUT_S");
  }
}

/// A launcher answers over a socket. Anything else that has this number now (the user's own pipe or file,
/// where the variables were left over from an earlier job) must not be written to.
Status check_descriptor(int descriptor) {
  struct stat facts {};
  const bool is_open = ::fstat(descriptor, &facts) == 0;
  if (is_open && S_ISSOCK(facts.st_mode) && descriptor > STDERR_FILENO) return {};
  return Status(Code::unavailable,
                fmt::format("PMI_FD is {}, but that descriptor is {}", descriptor,
                            is_open ? "no connection to a launcher" : "not open in this process"),
                kWaysOut);
}

/// One launcher's word, made fit for an error text.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 100;
  return printable(std::string(text.substr(0, kMost))) + (text.size() > kMost ? "..." : "");
}

}  // namespace

std::map<std::string, std::string> pmi_words(std::string_view line) {
  std::map<std::string, std::string> words;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    const auto equals = word.find('=');
    if (equals != std::string_view::npos && equals > 0)
      words.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return words;
}

Result<Pmi*> Pmi::begin(int descriptor, Deadline deadline) {
  Session& ours = session();
  const std::lock_guard lock(ours.mutex);
  if (ours.pmi != nullptr && ours.process == ::getpid()) return ours.pmi;
  if (ours.pmi != nullptr)
    return Status(Code::unsupported, "this process was forked by one that began PMI, which has one client",
                  "start ranks by the launcher, not by fork");
  RONDEL_TRY(check_descriptor(descriptor));
  auto pmi = std::make_unique<Pmi>(descriptor);
  RONDEL_TRY(pmi->greet(deadline));
  ours.pmi = pmi.release();
  ours.process = ::getpid();
  std::atexit(say_goodbye);
  return ours.pmi;
}

Status Pmi::greet(Deadline deadline) {
  const auto greeted = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline);
  if (greeted.status().code() == Code::unavailable)
    return Status(
        Code::unavailable,
        fmt::format("the launcher has closed its end of PMI_FD ({}): {}", descriptor_,
                    greeted.status().failure().cause),
        "PMI serves one program per process, and an earlier one has said goodbye: give each program a "
        "start of its own (mpiexec ./first; mpiexec ./second), or use rondelrun or srun without "
        "--mpi=pmi2");
  RONDEL_TRY(greeted);
  auto named = ask("cmd=get_my_kvsname", "my_kvsname", deadline);
  RONDEL_TRY(named);
  space_ = (*named)["kvsname"];
  usable_ = true;
  return {};
}

Status Pmi::put(const std::string& key, const std::string& value, Deadline deadline) {
  return ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result", deadline)
      .status();
}

Result<std::string> Pmi::get(const std::string& key, Deadline deadline) {
  auto found = ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result", deadline);
  RONDEL_TRY(found);
  return (*found)["value"];
}

Status Pmi::barrier(Deadline deadline) {
  Status met = ask("cmd=barrier_in", "barrier_out", deadline).status();
  if (met.code() != Code::timed_out) return met;
  usable_ = false;  // the reply may still come, and would be taken for that of a later request
  return Status(Code::timed_out, "not all ranks came to the job's first barrier in time (PMI)",
                "see that all ranks call rondel_init, or raise RONDEL_START_TIMEOUT_S");
}

void Pmi::finalize() {
  if (!usable_) return;
  static_cast<void>(ask("cmd=finalize", "finalize_ack", Deadline::in(kGoodbyePatience)));
  usable_ = false;
}

Result<std::map<std::string, std::string>> Pmi::ask(const std::string& request, std::string_view reply,
                                                    Deadline deadline) {
  const std::lock_guard lock(mutex_);
  RONDEL_TRY(send(request + "\n", deadline));
  const auto line = receive_line(deadline);
  RONDEL_TRY(line);
  auto words = pmi_words(*line);
  const std::string command = words["cmd"];
  const std::string result = words["rc"];
  if (command == reply && (result.empty() || result == "0")) return words;
  return Status(Code::refused,
                fmt::format("the launcher answers \"{}\" to \"{}\" (PMI)", shown(*line),
                            request.substr(0, request.find(" value="))),  // the value is secret
                "programs that also call MPI hand a unique id around instead (rondel_get_unique_id)");
}

Status Pmi::send(std::string_view text, Deadline deadline) const {
  while (!text.empty()) {
    RONDEL_TRY(wait_for(descriptor_, POLLOUT, deadline));
    const ssize_t n = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
      return system_failure(Code::unavailable, "asking the launcher (PMI)", errno, kLauncherGone);
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::string> Pmi::receive_line(Deadline deadline) {
  for (;;) {
    if (const auto end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > kMostLineBytes)
      return Status(Code::refused, "the launcher's answer has no end (PMI)", kWaysOut);
    RONDEL_TRY(wait_for(descriptor_, POLLIN, deadline));
    char piece[1024];
    const ssize_t n = ::read(descriptor_, piece, sizeof piece);
    if (n == 0) return Status(Code::unavailable, "the launcher has gone (PMI)", kLauncherGone);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
      return system_failure(Code::unavailable, "hearing the launcher (PMI)", errno, kLauncherGone);
    if (n > 0) received_.append(piece, static_cast<std::size_t>(n));
  }
}

}  // namespace rondel::c
