// SPDX-License-Identifier: Apache-2.0
#include "ring/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ring/collective.h"
#include "ring/health.h"
#include "ring/label.h"
#include "ring/schedule_builder.h"

namespace rondel {
namespace {

constexpr int kBatches = 2;  // the faster one counts
constexpr int kRounds = 4;   // of a batch
constexpr std::uint64_t kSmallBytes = 8;
constexpr std::uint64_t kLargeBytes = 256 * 1024;
constexpr std::chrono::milliseconds kSlice{50};

class Calibration {
 public:
  Calibration(Endpoint& endpoint, Rank rank, Rank size, const liveness::Watch& watch, Deadline deadline)
      : endpoint_(endpoint),
        watch_(watch),
        deadline_(deadline),
        collective_(&endpoint),
        memory_(2 * kLargeBytes) {
    shape_.rank = rank;
    shape_.size = size;
  }

  Result<Cost> run();

 private:
  Result<double> round_seconds(std::span<const Rank> distances, std::uint64_t bytes);
  Status agree(Cost& cost);
  Status finish(const Schedule& schedule, const Binding& binding);

  Endpoint& endpoint_;
  const liveness::Watch& watch_;
  const Deadline deadline_;
  Collective collective_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Registration> registration_;
  Shape shape_;
  std::uint64_t sequence_ = 0;
};

Status Calibration::finish(const Schedule& schedule, const Binding& binding) {
  collective_.begin(schedule, binding);
  for (;;) {
    RONDEL_TRY(collective_.advance());
    if (collective_.done()) return {};
    const auto finished = endpoint_.progress(kSlice);
    RONDEL_TRY(finished);
    if (*finished > 0) continue;
    if (watch_.raised())
      return Health::verdict_of(watch_.incident(), kNoRank).with("while links were measured");
    if (!deadline_.passed()) continue;
    Failure failure;
    failure.peer = collective_.waiting_for();
    failure.cause = fmt::format("rank {} did not answer in time while links were measured", failure.peer);
    return Status(Code::timed_out, std::move(failure));
  }
}

/// Everybody sends to the ranks at these distances and receives from those as far behind: seconds of one
/// round. Rounds are timed together, because a rank that is late in one round is early in the next.
Result<double> Calibration::round_seconds(std::span<const Rank> distances, std::uint64_t bytes) {
  ScheduleBuilder builder(shape_);
  builder.step();
  std::uint64_t offset = kLargeBytes;
  for (const Rank distance : distances) {
    builder.send(builder.around(distance), {{Place::input, 0, bytes}});
    builder.recv(builder.around(-distance), {{Place::output, offset, bytes}});
    offset += bytes;
  }
  const Schedule schedule = builder.finish();
  CollectiveRequest request;
  Binding binding;
  binding.memory[0] = binding.memory[1] = registration_.get();
  double fastest = 1e9;
  for (int batch = 0; batch <= kBatches; ++batch) {
    const auto start = Deadline::Clock::now();
    const int rounds = batch == 0 ? 1 : kRounds;  // the first warms up
    for (int round = 0; round < rounds; ++round) {
      binding.label = make_label(request, ++sequence_);
      RONDEL_TRY(finish(schedule, binding));
    }
    const std::chrono::duration<double> took = Deadline::Clock::now() - start;
    if (batch > 0) fastest = std::min(fastest, took.count() / rounds);
  }
  return fastest;
}

/// The largest of each number over all ranks: the slowest link sets the pace, and all choose alike.
Status Calibration::agree(Cost& cost) {
  std::array<double, 3> numbers{cost.hop_seconds, cost.message_seconds, 1 / cost.bytes_per_second};
  const std::uint64_t bytes = sizeof numbers;
  auto* values = reinterpret_cast<double*>(memory_.data());
  // Dissemination: everybody's maximum has reached everybody after the rounds of an agreement.
  const std::vector<Rank> skips = circulant_skips(shape_.size);
  Binding binding;
  binding.memory[0] = binding.memory[1] = registration_.get();
  CollectiveRequest request;
  for (auto skip = skips.rbegin(); skip != skips.rend(); ++skip) {
    std::copy(numbers.begin(), numbers.end(), values);
    ScheduleBuilder builder(shape_);
    builder.step();
    builder.send(builder.around(*skip), {{Place::input, 0, bytes}});
    builder.recv(builder.around(-*skip), {{Place::output, kLargeBytes, bytes}});
    const Schedule schedule = builder.finish();
    binding.label = make_label(request, ++sequence_);
    RONDEL_TRY(finish(schedule, binding));
    const auto* received = reinterpret_cast<const double*>(memory_.data() + kLargeBytes);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::max(numbers[i], received[i]);
  }
  cost.hop_seconds = numbers[0];
  cost.message_seconds = numbers[1];
  cost.bytes_per_second = 1 / numbers[2];
  return {};
}

Result<Cost> Calibration::run() {
  auto registration = endpoint_.register_memory({memory_.data(), memory_.size(), MemoryKind::host});
  RONDEL_TRY(registration);
  registration_ = std::move(registration).value();
  const Rank next[] = {1};
  const std::vector<Rank> several = circulant_skips(shape_.size);
  const auto small = round_seconds(next, kSmallBytes);
  RONDEL_TRY(small);
  const auto fan = round_seconds(several, kSmallBytes);
  RONDEL_TRY(fan);
  const auto large = round_seconds(next, kLargeBytes);
  RONDEL_TRY(large);
  Cost cost;
  cost.hop_seconds = std::max(*small, 1e-7);
  cost.message_seconds = cost.hop_seconds / 20;
  if (several.size() > 1)
    cost.message_seconds =
        std::max(cost.message_seconds, (*fan - *small) / static_cast<double>(several.size() - 1));
  cost.bytes_per_second = static_cast<double>(kLargeBytes) / std::max(*large - *small, *large / 10);
  RONDEL_TRY(agree(cost));
  return cost;
}

}  // namespace

Result<Cost> measure_cost(Endpoint& endpoint, Rank rank, Rank size, const liveness::Watch& watch,
                          Deadline deadline) {
  Calibration calibration(endpoint, rank, size, watch, deadline);
  auto cost = calibration.run();
  if (!cost.ok()) endpoint.abort(cost.code());  // what is posted names memory and completions that go now
  return cost;
}

}  // namespace rondel
