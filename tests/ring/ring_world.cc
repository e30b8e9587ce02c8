// SPDX-License-Identifier: Apache-2.0
#include "tests/ring/ring_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lib/arena.h"
#include "tests/support/reference.h"

namespace rondel::test {
namespace {

using Kind = CollectiveKind;

std::uint64_t count_of(const Trial& trial, Rank rank) {
  return trial.counts.empty() ? trial.count : trial.counts[static_cast<std::size_t>(rank)];
}

std::uint64_t total_of(const Trial& trial, Rank size) {
  std::uint64_t total = 0;
  for (Rank rank = 0; rank < size; ++rank) total += count_of(trial, rank);
  return total;
}

std::uint64_t before(const Trial& trial, Rank rank) {
  std::uint64_t begin = 0;
  for (Rank r = 0; r < rank; ++r) begin += count_of(trial, r);
  return begin;
}

Bytes cut(const Bytes& whole, const Trial& trial, std::uint64_t begin, std::uint64_t count) {
  const auto width = static_cast<std::ptrdiff_t>(size_of(trial.type));
  const auto first = whole.begin() + static_cast<std::ptrdiff_t>(begin) * width;
  return {first, first + static_cast<std::ptrdiff_t>(count) * width};
}

/// Elements of input that `rank` gives.
std::uint64_t input_elements(const Trial& trial, Rank rank, Rank size) {
  switch (trial.kind) {
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return total_of(trial, size);
    case Kind::all_gather:
    case Kind::gather:
      return count_of(trial, rank);
    case Kind::scatter:
      return rank == trial.root ? total_of(trial, size) : 0;
    case Kind::broadcast:
      return rank == trial.root ? trial.count : 0;
    default:
      return trial.count;
  }
}

Bytes wanted_of(const Trial& trial, Rank rank, Rank size, std::span<const Bytes> inputs) {
  const bool root = rank == trial.root;
  const auto at_root = static_cast<std::size_t>(trial.root);
  Bytes wanted;
  switch (trial.kind) {
    case Kind::all_reduce:
      return reference_reduce(trial.type, trial.op, inputs);
    case Kind::reduce:
      return root ? reference_reduce(trial.type, trial.op, inputs) : wanted;
    case Kind::reduce_scatter:
      return cut(reference_reduce(trial.type, trial.op, inputs), trial, before(trial, rank),
                 count_of(trial, rank));
    case Kind::broadcast:
      return inputs[at_root];
    case Kind::scatter:
      return cut(inputs[at_root], trial, before(trial, rank), count_of(trial, rank));
    case Kind::all_gather:
    case Kind::gather:
      if (trial.kind == Kind::gather && !root) return wanted;
      for (const Bytes& input : inputs) wanted.insert(wanted.end(), input.begin(), input.end());
      return wanted;
    case Kind::all_to_all:
      for (Rank from = 0; from < size; ++from) {
        const Bytes part =
            cut(inputs[static_cast<std::size_t>(from)], trial, before(trial, rank), trial.count);
        wanted.insert(wanted.end(), part.begin(), part.end());
      }
      return wanted;
    default:
      return wanted;
  }
}

/// Where the smaller of input and output lies inside the other, when they are one.
std::uint64_t offset_in_place(const Trial& trial, Rank rank) {
  switch (trial.kind) {
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::gather:
    case Kind::scatter:
      return before(trial, rank);
    default:
      return 0;
  }
}

}  // namespace

RingWorld::RingWorld(Rank ranks) : ranks_(ranks), secret_(Secret::generate().value()) {
  server_ = TcpServer::start({}, secret_).value();
}

std::shared_ptr<Job> RingWorld::make_job(Rank rank) {
  auto job = std::make_shared<Job>();
  job->transports.push_back(fabric_->transport_of(rank, secret_));
  job->store = open_memory_store(store_);
  job->member =
      liveness::Member::connect(server_->address(), secret_, Deadline::in(std::chrono::seconds(10))).value();
  return job;
}

CommunicatorOptions RingWorld::options(Rank rank) const {
  CommunicatorOptions options;
  options.rank = rank;
  options.size = ranks_;
  options.timeout = std::chrono::seconds(20);
  options.start_timeout = std::chrono::seconds(20);
  return options;
}

std::string RingWorld::run_bare(const std::function<void(RankTest&)>& body) {
  return all_of(run_as_threads(ranks_, body));
}

std::string RingWorld::run(const Body& body, const Tune& tune) {
  return run_bare([&](RankTest& test) {
    CommunicatorOptions own = options(test.rank());
    if (tune) tune(test.rank(), own);
    auto communicator = Communicator::create(make_job(test.rank()), own);
    test.require_ok(communicator, "create");
    body(test, **communicator);
  });
}

void try_out(RankTest& test, Communicator& communicator, const Trial& trial) {
  const Rank rank = communicator.rank(), size = communicator.size();
  std::vector<Bytes> inputs;
  for (Rank r = 0; r < size; ++r)
    inputs.push_back(make_input(trial.type, trial.op, r, input_elements(trial, r, size), trial.seed));
  const Bytes wanted = wanted_of(trial, rank, size, inputs);
  const Bytes& mine = inputs[static_cast<std::size_t>(rank)];
  const bool in_place = trial.in_place && !mine.empty() && !wanted.empty();
  const std::size_t offset = in_place ? offset_in_place(trial, rank) * size_of(trial.type) : 0;

  // Memory that all can reach; in every third trial one rank has only such that nobody else can.
  const auto arena = Arena::create(0).value();
  const bool reachable = rank != 1 || trial.seed % 3 != 0;
  Bytes own_input(mine.size()), own_output(wanted.size());
  std::byte* const input = reachable ? arena->allocate(mine.size()).value().data : own_input.data();
  std::byte* const output = reachable ? arena->allocate(wanted.size()).value().data : own_output.data();
  std::copy(mine.begin(), mine.end(), input);
  std::fill_n(output, wanted.size(), std::byte{0x5a});
  std::byte* from = input;
  std::byte* to = output;
  if (in_place && mine.size() <= wanted.size()) {
    from = output + offset;
    std::copy(mine.begin(), mine.end(), from);
  } else if (in_place) {
    to = input + offset;
  }
  CollectiveRequest request;
  request.kind = trial.kind;
  request.input = from;
  request.output = to;
  request.count = trial.counts.empty() ? trial.count : 0;
  request.counts = trial.counts;
  request.type = trial.type;
  request.op = trial.op;
  request.root = trial.root;
  const std::string what = fmt::format("{} size {} {} seed {}", describe(request), size,
                                       in_place ? "in place" : "out of place", trial.seed);
  test.require_ok(communicator.run(request), what);
  const std::string difference_found = difference(trial.type, trial.op, {to, wanted.size()}, wanted, 40);
  test.require(difference_found.empty(), what + ": " + difference_found);
  if (!in_place) test.require(std::equal(mine.begin(), mine.end(), input), what + ": the input changed");
}

CollectiveRequest all_reduce_request(const std::vector<float>& input, std::vector<float>& output,
                                     ReduceOp op) {
  CollectiveRequest request;
  request.kind = CollectiveKind::all_reduce;
  request.input = input.data();
  request.output = output.data();
  request.count = input.size();
  request.op = op;
  return request;
}

}  // namespace rondel::test
