// SPDX-License-Identifier: Apache-2.0
#include "ring/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/host_identity.h"
#include "ring/communicator_body.h"

namespace rondel {
namespace {

Status check_options(const Job& job, const CommunicatorOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    return Status(Code::invalid_argument, fmt::format("rank {} of {} can not be: ranks are 0 to size - 1",
                                                      options.rank, options.size));
  if (options.size > 1 && job.store == nullptr)
    return Status(Code::invalid_argument,
                  fmt::format("{} ranks need a store to find one another", options.size));
  return {};
}

/// Names a communicator for good: a name that is used again (after a shutdown, say) must not meet its old
/// keys.
Result<std::string> unique_name(Job& job, const CommunicatorOptions& options, Deadline deadline) {
  const std::lock_guard lock(job.creating);  // held for one short call
  const auto uses = job.store->add(fmt::format("{}/uses/{}", options.name, options.rank), 1, deadline);
  RONDEL_TRY(uses);
  return fmt::format("{}#{}", options.name, *uses);
}

std::shared_ptr<liveness::Watch> join(Job& job, liveness::Context context, Rank rank, Rank size) {
  if (job.member == nullptr || size == 1) return std::make_shared<liveness::Watch>(context);
  return job.member->join(context, rank, size, host_name());
}

/// One way for the ranks of a split to talk: all-gathers on the communicator that is split. All of its ranks
/// take part in every one of them, those that get no new communicator too.
class ParentExchange final : public Exchange {
 public:
  static constexpr int kCalls = 2;  // that a bootstrap makes

  /// `group`: the parent's ranks that form the new communicator, in its order.
  ParentExchange(Communicator& parent, std::vector<Rank> group) : parent_(parent), group_(std::move(group)) {}

  Result<std::vector<Bytes>> all_gather(std::string_view, const Bytes& mine, Deadline) override {
    ++calls_;
    auto all = all_gather_in(parent_, mine);
    RONDEL_TRY(all);
    std::vector<Bytes> chosen;
    for (const Rank rank : group_) chosen.push_back(std::move((*all)[static_cast<std::size_t>(rank)]));
    return chosen;
  }
  /// Takes part in what the others still do.
  Status finish() {
    for (; calls_ < kCalls; ++calls_) RONDEL_TRY(all_gather_in(parent_, {}));
    return {};
  }

  static Result<std::vector<Bytes>> all_gather_in(Communicator& parent, const Bytes& mine);

 private:
  Communicator& parent_;
  const std::vector<Rank> group_;
  int calls_ = 0;
};

Result<std::vector<Bytes>> ParentExchange::all_gather_in(Communicator& parent, const Bytes& mine) {
  const auto size = static_cast<std::size_t>(parent.size());
  const std::uint64_t own = mine.size();
  std::vector<std::uint64_t> counts(size);
  CollectiveRequest request;
  request.kind = CollectiveKind::all_gather;
  request.purpose = Purpose::split;
  request.type = DataType::int64;
  request.input = &own;
  request.output = counts.data();
  request.count = 1;
  RONDEL_TRY(parent.run(request));
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts) total += count;
  Bytes joined(total);
  request.type = DataType::uint8;
  request.input = mine.data();
  request.output = joined.data();
  request.count = 0;
  request.counts = counts;
  RONDEL_TRY(parent.run(request));
  std::vector<Bytes> all;
  auto next = joined.cbegin();
  for (const std::uint64_t count : counts) {
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    all.emplace_back(next, end);
    next = end;
  }
  return all;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Body> body) : body_(std::move(body)) {}

Communicator::~Communicator() {
  if (body_ == nullptr) return;
  // Leave before the links close, so that peers which still need this rank learn that it left and did not
  // die.
  body_->health.leave();
}

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<Job> job,
                                                           CommunicatorOptions options) {
  const Deadline deadline = Deadline::in(options.start_timeout);
  return create(std::move(job), std::move(options), deadline);
}

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<Job> job,
                                                           CommunicatorOptions options, Deadline deadline) {
  RONDEL_TRY(check_options(*job, options));
  if (options.size == 1) return Body::build(std::move(job), std::move(options), nullptr, nullptr, deadline);
  auto name = unique_name(*job, options, deadline);
  RONDEL_TRY(name);
  options.name = std::move(name).value();  // children are named after it
  const Rank rank = options.rank, size = options.size;
  auto watch = join(*job, context_of(options.name), rank, size);
  const auto exchange = make_store_exchange(*job->store, job->creating, options.name, rank, size, watch);
  return Body::build(std::move(job), std::move(options), std::move(watch), exchange.get(), deadline);
}

Result<std::unique_ptr<Communicator>> Communicator::Body::build(std::shared_ptr<Job> job,
                                                                CommunicatorOptions options,
                                                                std::shared_ptr<liveness::Watch> watch,
                                                                Exchange* exchange, Deadline deadline) {
  const auto algorithm = parse_algorithm(options.algorithm);
  RONDEL_TRY(algorithm);
  Attachment attachment;
  if (watch == nullptr) watch = std::make_shared<liveness::Watch>(context_of(options.name));
  if (exchange == nullptr) {
    attachment.transport = "none";
    attachment.hosts = {host_name()};
  } else {
    auto made = bootstrap(*job, options, *exchange, *watch, deadline);
    if (!made.ok()) {
      Health health(watch, job->member.get(), options.rank, {});
      Status why =
          health.judge_start(made.status());  // so that no rank has to guess from its neighbours' ends
      health.leave();
      return std::move(why).with(
          fmt::format("creating communicator \"{}\"", options.name.substr(0, options.name.find('#'))));
    }
    attachment = std::move(made).value();
  }
  auto body = std::make_unique<Body>(std::move(job), std::move(options), std::move(watch),
                                     std::move(attachment), *algorithm);
  if (const Endpoint* const data = body->attachment.data.get()) {
    body->sent_before = data->bytes_sent();
    body->received_before = data->bytes_received();
  }
  return std::unique_ptr<Communicator>(new Communicator(std::move(body)));
}

Rank Communicator::rank() const { return body_->options.rank; }
Rank Communicator::size() const { return body_->options.size; }
std::string_view Communicator::transport_name() const { return body_->attachment.transport; }
const std::string& Communicator::host_of(Rank rank) const {
  return body_->attachment.hosts.at(static_cast<std::size_t>(rank));
}

Status Communicator::run(const CollectiveRequest& request) { return body_->run(request); }
Result<OperationId> Communicator::start(const CollectiveRequest& request) { return body_->start(request); }
Status Communicator::progress(std::chrono::nanoseconds may_block_for) {
  return body_->progress(may_block_for);
}
bool Communicator::done(OperationId operation) const { return body_->done(operation); }
Status Communicator::wait(OperationId operation, Deadline deadline) {
  return body_->wait(operation, deadline);
}
Result<int> Communicator::wait_descriptor(bool ready) { return body_->wait_descriptor(ready); }
void Communicator::abort(std::string_view why) { body_->health.abort(why); }
Status Communicator::failure() const { return body_->health.failure(); }

namespace {

/// The ranks of `parent` with this colour, ordered by key, then rank.
Result<std::vector<Rank>> gather_group(Communicator& parent, std::int32_t colour, std::int32_t key) {
  const std::int32_t own[] = {colour, key};
  Bytes mine(sizeof own);
  std::memcpy(mine.data(), own, sizeof own);
  const auto all = ParentExchange::all_gather_in(parent, mine);
  RONDEL_TRY(all);
  std::vector<std::pair<std::int32_t, Rank>> members;
  for (std::size_t i = 0; i < all->size(); ++i) {
    std::int32_t choice[2];
    if ((*all)[i].size() != sizeof choice)
      return Status(Code::internal, fmt::format("rank {} sent {} bytes for a split", i, (*all)[i].size()));
    std::memcpy(choice, (*all)[i].data(), sizeof choice);
    if (choice[0] == colour) members.emplace_back(choice[1], static_cast<Rank>(i));
  }
  std::ranges::sort(members);
  std::vector<Rank> group;
  group.reserve(members.size());
  for (const auto& member : members) group.push_back(member.second);
  return group;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::split(std::int32_t colour, std::int32_t key) {
  const std::uint64_t child = ++body_->children;
  const auto group = gather_group(*this, colour, key);
  RONDEL_TRY(group);
  ParentExchange exchange(*this, *group);
  CommunicatorOptions options = body_->options;
  options.name = fmt::format("{}/{}.{}", body_->options.name, child, colour);
  options.size = static_cast<Rank>(group->size());
  options.rank = static_cast<Rank>(std::ranges::find(*group, rank()) - group->begin());
  if (colour < 0) {
    RONDEL_TRY(exchange.finish());
    return std::unique_ptr<Communicator>();
  }
  const Deadline deadline = Deadline::in(options.start_timeout);
  const bool alone = options.size == 1;
  auto watch = alone ? nullptr : join(*body_->job, context_of(options.name), options.rank, options.size);
  auto made =
      Body::build(body_->job, std::move(options), std::move(watch), alone ? nullptr : &exchange, deadline);
  RONDEL_TRY(exchange.finish());
  return made;
}

Result<std::uint64_t> Communicator::remember_memory(MemorySpan memory) {
  return body_->remember_memory(memory);
}
void Communicator::forget_memory(std::uint64_t name) { body_->forget_memory(name); }

std::uint64_t Communicator::bytes_sent() const {
  const Attachment& attachment = body_->attachment;
  if (attachment.data == nullptr) return 0;
  return attachment.data->bytes_sent() + attachment.pairs->bytes_sent() - body_->sent_before;
}

std::uint64_t Communicator::bytes_received() const {
  const Attachment& attachment = body_->attachment;
  if (attachment.data == nullptr) return 0;
  return attachment.data->bytes_received() + attachment.pairs->bytes_received() - body_->received_before;
}

// Both endpoints are of one transport, so the names are the same.
std::vector<Counter> Communicator::counters() const {
  const Attachment& attachment = body_->attachment;
  if (attachment.data == nullptr) return {};
  std::vector<Counter> sums = attachment.data->counters();
  const std::vector<Counter> more = attachment.pairs->counters();
  for (std::size_t i = 0; i < std::min(sums.size(), more.size()); ++i) sums[i].value += more[i].value;
  return sums;
}

Result<std::unique_ptr<Communicator>> Communicator::duplicate() { return split(0, 0); }

}  // namespace rondel
