// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
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

Result<UniqueFd> HostRanks::secret_descriptor() const {
  const Bytes& bytes = order_.secret;
  const auto put = [&bytes](const UniqueFd& into) {
    return ::write(into.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  };
  UniqueFd memory(::memfd_create("rondel-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory && put(memory) && ::lseek(memory.get(), 0, SEEK_SET) == 0 &&
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    return memory;
  // Some containers forbid memfds. What else has no name is in memory too, or can be read by one program
  // only.
  UniqueFd file(::open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file && put(file) && ::lseek(file.get(), 0, SEEK_SET) == 0) return file;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return system_failure(Code::unavailable, "opening a pipe for the job secret", errno);
  UniqueFd pipe(ends[0]);
  if (!put(UniqueFd(ends[1]))) return system_failure(Code::io_error, "handing over the job secret", errno);
  return pipe;
}

Result<HostRanks::Started> HostRanks::start(const RankPlace& place, int input) {
  auto out = open_pipe();
  if (!out.ok()) return std::move(out).status();
  auto err = open_pipe();
  if (!err.ok()) return std::move(err).status();
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return system_failure(Code::unavailable, "opening /dev/null", errno);
  const auto secret = secret_descriptor();
  if (!secret.ok()) return secret.status();

  ProcessRequest request;
  request.words = order_.program;
  request.search_path = order_.search_path;
  request.environment = rank_environment(order_.environment, place, order_.contact, secret->get());
  request.directory = order_.directory;
  request.standard_input = input < 0 ? nothing.get() : input;
  request.standard_output = out->rank_s.get();
  request.standard_error = err->rank_s.get();
  request.inherited = secret->get();
  request.signal_mask = setup_.signal_mask;
  request.descriptor_limit = setup_.descriptor_limit;
  const auto local = static_cast<std::size_t>(place.local_rank);
  if (local < setup_.bindings.size()) request.cpus = setup_.bindings[local];
  auto process = Process::spawn(request);
  if (!process.ok()) return std::move(process).status().with(fmt::format("cannot start rank {}", place.rank));
  const pid_t pid = process->pid();
  children_.push_back({place.rank, *std::move(process)});
  return Started{place.rank, pid, std::move(request.cpus), std::move(out->ours), std::move(err->ours)};
}

std::vector<RankEnding> HostRanks::collect() {
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

void HostRanks::signal_ranks(int signal) const {
  for (const Child& child : children_)
    if (!child.ended) child.process.signal_group(signal);
}

bool HostRanks::all_ended() const {
  return std::all_of(children_.begin(), children_.end(), [](const Child& child) { return child.ended; });
}

std::vector<pid_t> HostRanks::sessions() const {
  std::vector<pid_t> sessions;
  for (const Child& child : children_) sessions.push_back(child.process.pid());
  return sessions;
}

}  // namespace rondel
