// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "lib/host_identity.h"
#include "lib/log.h"
#include "transports/registry.h"

namespace rondel::c {
namespace {

/// The context in which ranks are known to live between the start and the end of a job without a launcher.
constexpr liveness::Context kPresence = std::numeric_limits<liveness::Context>::max();

/// How long one look for goodbyes takes before deaths are looked for.
constexpr std::chrono::milliseconds kGlance{50};

/// For the answer to a goodbye: none is needed, the goodbye arrives without it.
constexpr std::chrono::milliseconds kGoodbyePatience{100};

std::string goodbye_key(Rank rank) { return fmt::format("goodbye/{}", rank); }

CommunicatorOptions communicator_options(const Config& config, const Entry& entry) {
  CommunicatorOptions options;
  options.rank = entry.rank;
  options.size = entry.size;
  options.name = entry.name;
  options.transport = config.transport;
  options.algorithm = config.algorithm;
  options.segment_bytes = config.segment_bytes;
  options.timeout = config.timeout;
  options.start_timeout = config.start_timeout;
  return options;
}

}  // namespace

Result<std::shared_ptr<JobHold>> JobHold::create(const Config& config, Entry entry, Deadline deadline) {
  std::shared_ptr<JobHold> hold(new JobHold);
  hold->server_ = std::move(entry.server);
  hold->clear_away_ = std::move(entry.clear_away);
  hold->rank_ = entry.rank;
  hold->size_ = entry.size;
  hold->patience_ = config.timeout;
  hold->job_ = std::make_shared<Job>();
  hold->job_->transports = make_transports(config, entry.point.secret);
  if (entry.store == nullptr) return hold;

  auto member =
      liveness::Member::connect(entry.point.address, entry.point.secret, deadline, config.silence_timeout);
  if (!member.ok()) return std::move(member).status().with("connecting liveness");
  hold->job_->member = std::move(member).value();
  hold->job_->store = std::move(entry.store);
  hold->served_by_rank_0_ = entry.served_by_rank_0;
  return hold;
}

void JobHold::started() {
  if (served_by_rank_0_) presence_ = job_->member->join(kPresence, rank_, size_, host_name());
}

JobHold::~JobHold() {
  if (served_by_rank_0_ && server_ == nullptr) say_goodbye();
  if (server_ != nullptr && job_->store != nullptr) await_goodbyes();
  if (clear_away_) clear_away_();
  if (presence_ != nullptr) job_->member->leave(presence_);
}

void JobHold::say_goodbye() {
  const Status said = job_->store->set(goodbye_key(rank_), {}, Deadline::in(kGoodbyePatience));
  if (!said.ok()) log(LogLevel::info, "no goodbye to rank 0: {}", said.text());
}

void JobHold::await_goodbyes() {
  const bool in_start = presence_ == nullptr;
  // Those that came to a start still have to read why it failed; who never came says nothing.
  const auto arrived = server_->arrived_ranks();
  std::vector<std::string> keys;
  for (Rank rank = 1; rank < size_; ++rank)
    if (!in_start || std::ranges::binary_search(arrived, rank)) keys.push_back(goodbye_key(rank));
  const Deadline deadline = Deadline::in(in_start ? kPatienceInStart : patience_);
  while (in_start || !presence_->raised()) {
    const Status all = job_->store->wait(keys, Deadline::in(kGlance).or_before(deadline));
    if (all.ok()) return;
    if (all.code() == Code::timed_out && !deadline.passed()) continue;
    log(in_start ? LogLevel::info : LogLevel::warn,
        "closing the job's meeting point while other ranks still use it: {}", all.text());
    return;
  }
}

Status without_meeting_point(Status failed, Rank rank, bool served_by_rank_0) {
  if (failed.ok()) return failed;
  Failure failure = failed.failure();
  if (failure.rank == kNoRank) failure.rank = rank;
  const bool silent = failed.code() == Code::timed_out && failure.peer == kNoRank;
  if (silent && served_by_rank_0 && rank != 0) failure.peer = 0;
  return Status(failed.code(), std::move(failure));
}

namespace {

/// The store of rank 0 serves one start, to which each rank comes once.
Status check_only_one(const Entry& entry, Deadline deadline) {
  if (entry.store == nullptr || !entry.served_by_rank_0) return {};
  const auto processes = entry.store->add(fmt::format("processes/{}", entry.rank), 1, deadline);
  RONDEL_TRY(processes);
  if (*processes == 1) return {};
  Failure failure;
  failure.cause = fmt::format("another process has come to this job as rank {} already", entry.rank);
  failure.hint =
      "give every process a rank of its own, and every job a MASTER_PORT, RONDEL_STORE or unique id of its "
      "own";
  failure.rank = failure.peer = entry.rank;
  return Status(Code::mismatch, std::move(failure));
}

}  // namespace

Result<Started> start_job(const Config& config, Entry entry, Deadline deadline) {
  const CommunicatorOptions options = communicator_options(config, entry);
  const bool served_by_rank_0 = entry.served_by_rank_0;
  configure_log(config.log_level, fmt::format("rank {}", entry.rank));
  if (Status alone = check_only_one(entry, deadline); !alone.ok())
    return without_meeting_point(std::move(alone), options.rank, served_by_rank_0);
  auto hold = JobHold::create(config, std::move(entry), deadline);
  if (!hold.ok()) return without_meeting_point(std::move(hold).status(), options.rank, served_by_rank_0);
  auto communicator = Communicator::create((*hold)->job(), options, deadline);
  if (!communicator.ok()) return without_meeting_point(std::move(communicator).status(), options.rank, false);
  (*hold)->started();
  return Started{std::move(hold).value(), std::move(communicator).value()};
}

}  // namespace rondel::c
