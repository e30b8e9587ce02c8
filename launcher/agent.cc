// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace rondel {
namespace {

struct OutputPipe {
  UniqueFd ours;
  UniqueFd rank_s;
};

Result<OutputPipe> open_pipe() {
  constexpr int kPipeBytes = 256 * 1024;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return system_failure(Code::unavailable, "opening a pipe for output", errno);
  OutputPipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  ::fcntl(pipe.ours.get(), F_SETFL, O_NONBLOCK);       // of our end only
  ::fcntl(pipe.ours.get(), F_SETPIPE_SZ, kPipeBytes);  // faster when the system grants it
  return pipe;
}

}  // namespace

Result<UniqueFd> Agent::secret_descriptor() const {
  UniqueFd fd(::memfd_create("rondel-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_failure(Code::unavailable, "opening memory for the job secret", errno);
  const auto bytes = secret_.bytes();
  const bool written =
      ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
      ::lseek(fd.get(), 0, SEEK_SET) == 0 &&
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  if (!written) return system_failure(Code::io_error, "handing over the job secret", errno);
  return fd;
}

Result<UniqueFd> Agent::input_for(Rank rank) const {
  // A background job must not take the terminal's input away from the shell.
  const bool background = ::isatty(0) == 1 && ::tcgetpgrp(0) != ::getpgrp();
  const bool reads = job_.stdin_rank == rank && !background;
  UniqueFd fd(reads ? ::fcntl(0, F_DUPFD_CLOEXEC, 3) : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!fd) return system_failure(Code::unavailable, "opening standard input", errno);
  return fd;
}

Result<Agent::Started> Agent::start(const RankPlace& place) {
  auto out = open_pipe();
  if (!out.ok()) return std::move(out).status();
  auto err = open_pipe();
  if (!err.ok()) return std::move(err).status();
  auto in = input_for(place.rank);
  if (!in.ok()) return std::move(in).status();
  const auto secret = secret_descriptor();
  if (!secret.ok()) return secret.status();

  ProcessRequest request;
  request.words = job_.program;
  request.environment = rank_environment(job_.environment, place, job_.contact, secret->get());
  request.directory = job_.directory;
  request.standard_input = in->get();
  request.standard_output = out->rank_s.get();
  request.standard_error = err->rank_s.get();
  request.inherited = secret->get();
  request.signal_mask = job_.signal_mask;
  request.descriptor_limit = job_.descriptor_limit;
  auto process = Process::spawn(request);
  if (!process.ok()) return std::move(process).status().with(fmt::format("cannot start rank {}", place.rank));
  const pid_t pid = process->pid();
  children_.push_back({place.rank, *std::move(process)});
  return Started{place.rank, pid, std::move(out->ours), std::move(err->ours)};
}

std::vector<RankEnding> Agent::collect() {
  std::vector<RankEnding> endings;
  for (Child& child : children_) {
    if (child.ended) continue;
    const auto ending = child.process.ending();
    if (!ending) continue;
    child.ended = true;
    endings.push_back({child.rank, *ending});
  }
  return endings;
}

void Agent::signal_ranks(int signal) const {
  for (const Child& child : children_)
    if (!child.ended) child.process.signal_group(signal);
}

std::vector<pid_t> Agent::sessions() const {
  std::vector<pid_t> sessions;
  for (const Child& child : children_) sessions.push_back(child.process.pid());
  return sessions;
}

}  // namespace rondel
