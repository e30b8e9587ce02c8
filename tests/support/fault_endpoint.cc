// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fault_endpoint.h"

#include <fmt/format.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/seed.h"

namespace rondel::test {

namespace {

// A batch that owns its lists of slices, for it outlives the caller's.
struct HeldBatch {
  std::vector<Work> works;
  std::deque<std::vector<Slice>> slices;
  StreamRef stream;

  HeldBatch(std::span<const Work> batch, StreamRef on_stream) : stream(on_stream) {
    for (Work work : batch) {
      work.local = slices.emplace_back(work.local.begin(), work.local.end());
      work.other = slices.emplace_back(work.other.begin(), work.other.end());
      works.push_back(work);
    }
  }
};

class FaultEndpoint final : public Endpoint {
 public:
  FaultEndpoint(std::unique_ptr<Endpoint> inner, const Faults& faults)
      : inner_(std::move(inner)), faults_(faults), random_(faults.seed) {}

  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  Bytes address() const override { return inner_->address(); }
  Status connect(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                 Deadline deadline) override {
    return inner_->connect(by_rank, neighbours, deadline);
  }
  Result<std::unique_ptr<Registration>> register_memory(MemorySpan memory) override {
    return inner_->register_memory(memory);
  }
  Status post(std::span<const Work> batch, StreamRef stream) override;
  Status can_post(std::span<const Work> batch) override { return inner_->can_post(batch); }
  Result<std::size_t> progress(std::chrono::nanoseconds may_block_for) override;
  void abort(Code why) noexcept override {
    inner_->abort(why);
    drop_held(why);
  }
  const Status& failure() const override { return injected_.ok() ? inner_->failure() : injected_; }
  std::optional<LabelMismatch> mismatch() const override { return inner_->mismatch(); }
  int wait_descriptor() override {
    release_held();
    return inner_->wait_descriptor();
  }
  std::uint64_t bytes_received() const override { return inner_->bytes_received(); }
  std::uint64_t bytes_sent() const override { return inner_->bytes_sent(); }

 private:
  void strike(const Work& work);
  void release_held();
  void drop_held(Code why) noexcept;

  const std::unique_ptr<Endpoint> inner_;
  const Faults faults_;
  Random random_;
  std::uint64_t works_ = 0;
  std::optional<Rank> struck_;
  unsigned calls_to_hold_ = 0;
  std::deque<HeldBatch> held_;
  Status injected_;
};

Status FaultEndpoint::post(std::span<const Work> batch, StreamRef stream) {
  if (!failure().ok()) return failure();
  for (const Work& work : batch)
    if (++works_ == faults_.fail_work) struck_ = work.peer;
  if (held_.empty() && !struck_.has_value() && !random_.happens(faults_.hold))
    return inner_->post(batch, stream);
  if (held_.empty()) calls_to_hold_ = 1 + static_cast<unsigned>(random_.below(faults_.longest_hold));
  held_.emplace_back(batch, stream);
  return {};
}

Result<std::size_t> FaultEndpoint::progress(std::chrono::nanoseconds may_block_for) {
  if (struck_.has_value() && injected_.ok()) {
    Failure failure;
    failure.cause = fmt::format("injected at work {} (seed {})", faults_.fail_work, faults_.seed);
    failure.peer = *struck_;
    injected_ = Status(faults_.fail_code, std::move(failure));
    abort(faults_.fail_code);
  }
  if (!failure().ok()) return failure();
  if (random_.happens(faults_.look_away)) return std::size_t{0};
  if (calls_to_hold_ > 0 && --calls_to_hold_ > 0) return inner_->progress(std::chrono::nanoseconds::zero());
  release_held();
  return inner_->progress(may_block_for);
}

void FaultEndpoint::release_held() {
  calls_to_hold_ = 0;
  while (!held_.empty() && !struck_.has_value()) {
    const HeldBatch batch = std::move(held_.front());
    held_.pop_front();
    const Status posted = inner_->post(batch.works, batch.stream);
    if (posted.ok()) continue;
    for (const Work& work : batch.works) work.done->finish(posted.code());
    if (injected_.ok()) injected_ = posted;
    abort(posted.code());
  }
}

void FaultEndpoint::drop_held(Code why) noexcept {
  for (const HeldBatch& batch : std::exchange(held_, {}))
    for (const Work& work : batch.works) work.done->finish(why);
}

class FaultTransport final : public Transport {
 public:
  FaultTransport(std::unique_ptr<Transport> inner, const Faults& faults, Rank guilty)
      : inner_(std::move(inner)), faults_(faults), guilty_(guilty) {}

  std::string_view name() const override { return inner_->name(); }
  Probe probe() const override { return inner_->probe(); }
  Status try_beacon(std::span<const std::byte> beacon) const override { return inner_->try_beacon(beacon); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    auto endpoint = inner_->open(options);
    if (!endpoint.ok()) return endpoint;
    Faults faults = faults_;
    faults.seed =
        Random(faults.seed ^ static_cast<std::uint64_t>(options.rank) << 16 ^ options.channel).next();
    if (guilty_ != kNoRank && guilty_ != options.rank) faults.fail_work = 0;
    return with_faults(std::move(*endpoint), faults);
  }

 private:
  const std::unique_ptr<Transport> inner_;
  const Faults faults_;
  const Rank guilty_;
};

}  // namespace

std::unique_ptr<Endpoint> with_faults(std::unique_ptr<Endpoint> inner, const Faults& faults) {
  return std::make_unique<FaultEndpoint>(std::move(inner), faults);
}

std::unique_ptr<Transport> with_faults(std::unique_ptr<Transport> inner, const Faults& faults, Rank guilty) {
  return std::make_unique<FaultTransport>(std::move(inner), faults, guilty);
}

}  // namespace rondel::test
