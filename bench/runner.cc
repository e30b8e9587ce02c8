// SPDX-License-Identifier: Apache-2.0
#include "bench/runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace rondel::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNotAnElement = 0x5a;  // what an output holds before a verified run

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::size_t parts_of(const Options& options, Rank ranks) {
  return options.collective->parts ? static_cast<std::size_t>(ranks) : 1;
}

}  // namespace

std::size_t size_bytes_of(const Options& options, Rank ranks, std::size_t count) {
  return count * parts_of(options, ranks) * size_of(options.type);
}

std::vector<std::size_t> Runner::counts(const Options& options, Rank ranks) {
  if (!options.collective->has_data) return {0};
  std::vector<std::size_t> counts;
  for (const std::size_t bytes : sizes_of(options.sweep)) {
    const std::size_t count =
        std::max<std::size_t>(bytes / size_of(options.type) / parts_of(options, ranks), 1);
    if (counts.empty() || counts.back() != count) counts.push_back(count);
  }
  return counts;
}

Result<Runner> Runner::create(Communicator& comm, const Options& options) {
  std::size_t most_elements = 1;
  for (const std::size_t count : counts(options, comm.size())) {
    const Layout layout = options.collective->layout({comm.rank(), comm.size(), options.root, count});
    most_elements = std::max({most_elements, layout.input_elements, layout.output_elements});
  }
  const std::size_t bytes = most_elements * size_of(options.type);
  Result<Buffer> first = Buffer::allocate(bytes, options.plain_memory);
  RONDEL_TRY(first);
  Result<Buffer> second = Buffer::allocate(bytes, options.plain_memory);
  RONDEL_TRY(second);
  return Runner(comm, options, std::move(first).value(), std::move(second).value());
}

Runner::Runner(Communicator& comm, const Options& options, Buffer first, Buffer second)
    : comm_(comm),
      options_(options),
      first_(std::move(first)),
      second_(std::move(second)),
      element_bytes_(size_of(options.type)) {}

Result<Row> Runner::run(std::size_t count) {
  shape_ = {comm_.rank(), comm_.size(), options_.root, count};
  layout_ = options_.collective->layout(shape_);
  Row row;
  row.size_bytes = options_.collective->has_data ? size_bytes_of(options_, shape_.ranks, count) : 0;
  row.count = count;
  Result<Measurement> out_of_place = measure(Placement::out_of_place, row.size_bytes);
  RONDEL_TRY(out_of_place);
  row.out_of_place = *out_of_place;
  if (!options_.collective->in_place) return row;
  Result<Measurement> in_place = measure(Placement::in_place, row.size_bytes);
  RONDEL_TRY(in_place);
  row.in_place = *in_place;
  return row;
}

Result<Measurement> Runner::measure(Placement placement, std::size_t size_bytes) {
  const bool verifies = options_.checks > 0 && options_.collective->has_data;
  std::int64_t wrong = 0;
  if (verifies) RONDEL_TRY(verify(placement, wrong));
  const Pattern data = pattern(0);
  prepare(placement, data);
  const Result<int> iterations = warm_up(placement, size_bytes);
  RONDEL_TRY(iterations);
  Measurement measurement;
  Result<std::vector<double>> samples = time(placement, *iterations, measurement.effort);
  RONDEL_TRY(samples);
  measurement.times = summarize(std::move(samples).value(), warmup_for(options_.sweep, size_bytes));
  measurement.algorithm_gb_per_s = static_cast<double>(size_bytes) / measurement.times.median_us / 1e3;
  measurement.bus_gb_per_s = measurement.algorithm_gb_per_s * options_.collective->bus_factor(shape_.ranks);
  if (!verifies) return measurement;
  // Out of place the timed runs left their result too; in place they have reduced it again and again.
  if (placement == Placement::out_of_place) wrong += count_wrong(data, placement);
  RONDEL_TRY(comm_.sum(wrong));
  measurement.wrong = wrong;
  return measurement;
}

Status Runner::verify(Placement placement, std::int64_t& wrong) {
  for (int i = 0; i < options_.checks; ++i) {
    const Pattern data = pattern(static_cast<std::uint32_t>(i) + 1);
    prepare(placement, data);
    RONDEL_TRY(call(placement));
    if (options_.corrupt) spoil_last_element(output(placement));
    wrong += count_wrong(data, placement);
  }
  return {};
}

/// Every output byte that the collective does not write stays wrong.
void Runner::prepare(Placement placement, const Pattern& data) {
  if (layout_.output_elements > 0)
    std::memset(output(placement), kNotAnElement, bytes_of(layout_.output_elements));
  data.fill(input(placement), shape_.rank, 0, layout_.input_elements);
}

void Runner::spoil_last_element(std::byte* output) const {
  if (layout_.output_elements == 0) return;
  std::byte* const element = output + bytes_of(layout_.output_elements - 1);
  for (std::size_t i = 0; i < element_bytes_; ++i) element[i] ^= std::byte{0xff};
}

std::int64_t Runner::count_wrong(const Pattern& data, Placement placement) const {
  std::size_t wrong = 0;
  for (const ExpectedPart& part : layout_.expected) {
    const std::byte* const found = output(placement) + bytes_of(part.output_first);
    wrong += part.source == kNoRank
                 ? data.count_wrong_results(found, part.source_first, part.elements)
                 : data.count_wrong_copies(found, part.source, part.source_first, part.elements);
  }
  // Out of place, a collective must leave its input as it was.
  if (placement == Placement::out_of_place)
    wrong += data.count_wrong_copies(input(placement), shape_.rank, 0, layout_.input_elements);
  return static_cast<std::int64_t>(wrong);
}

/// Returns the number of iterations to time, equal on all ranks, which also start together after it.
Result<int> Runner::warm_up(Placement placement, std::size_t size_bytes) {
  const int rounds = warmup_for(options_.sweep, size_bytes);
  const auto start = Clock::now();
  for (int i = 0; i < rounds; ++i) RONDEL_TRY(call(placement));
  double seconds_each = rounds > 0 ? seconds_since(start) / rounds : 0;
  RONDEL_TRY(comm_.largest(&seconds_each, 1));
  return limit_iterations(options_.sweep, iterations_for(options_.sweep, size_bytes), seconds_each);
}

Result<std::vector<double>> Runner::time(Placement placement, int iterations, Effort& effort) {
  std::vector<double> samples_us(static_cast<std::size_t>(iterations));
  const Result<Effort> before = comm_.effort();
  RONDEL_TRY(before);
  for (double& sample : samples_us) {
    const auto start = Clock::now();
    RONDEL_TRY(call(placement));
    sample = seconds_since(start) * 1e6;
  }
  const Result<Effort> after = comm_.effort();
  RONDEL_TRY(after);
  effort = effort_of_each(*before, *after, iterations);
  RONDEL_TRY(comm_.largest(samples_us.data(), samples_us.size()));
  return samples_us;
}

Status Runner::call(Placement placement) {
  const Call call{comm_.handle(), shape_, input(placement), output(placement), options_.type, options_.op};
  return status_of(options_.collective->run(call), comm_.handle());
}

std::byte* Runner::input(Placement placement) const {
  if (placement == Placement::out_of_place) return first_.data();
  return second_.data() + bytes_of(layout_.input_offset);
}

std::byte* Runner::output(Placement placement) const {
  if (placement == Placement::out_of_place) return second_.data();
  return second_.data() + bytes_of(layout_.output_offset);
}

Pattern Runner::pattern(std::uint32_t seed) const {
  const auto op = options_.collective->reduces ? std::optional(options_.op) : std::nullopt;
  return Pattern(options_.type, op, shape_.ranks, seed);
}

}  // namespace rondel::bench
