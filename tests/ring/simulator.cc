// SPDX-License-Identifier: Apache-2.0
#include "tests/ring/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <random>

#include "lib/partition.h"

namespace rondel::test {
namespace {

using Word = std::uint64_t;

Word mix(Word value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

Word total_of(std::span<const Word> counts, Word count, Rank size) {
  if (counts.empty()) return count * static_cast<Word>(size);
  Word total = 0;
  for (const Word each : counts) total += each;
  return total;
}

Word own_of(const Shape& shape) {
  return shape.counts.empty() ? shape.count : shape.counts[static_cast<std::size_t>(shape.rank)];
}

Word offset_of(std::span<const Word> counts, Word count, Rank rank) {
  Word offset = 0;
  for (Rank r = 0; r < rank; ++r) offset += counts.empty() ? count : counts[static_cast<std::size_t>(r)];
  return offset;
}

struct Sizes {
  Word input = 0, output = 0;
  Word input_at = 0;   // in place: where input begins inside the output
  Word output_at = 0;  // in place: where output begins inside the input
};

Sizes sizes_of(const Shape& shape) {
  using Kind = CollectiveKind;
  const Word all = total_of(shape.counts, shape.count, shape.size);
  const Word own = own_of(shape);
  const Word before = offset_of(shape.counts, shape.count, shape.rank);
  const bool root = shape.rank == shape.root;
  switch (shape.kind) {
    case Kind::all_reduce:
      return {shape.count, shape.count, 0, 0};
    case Kind::reduce_scatter:
      return {all, own, 0, before};
    case Kind::all_gather:
      return {own, all, before, 0};
    case Kind::broadcast:
      return {root ? shape.count : 0, shape.count, 0, 0};
    case Kind::reduce:
      return {shape.count, root ? shape.count : 0, 0, 0};
    case Kind::gather:
      return {own, root ? all : 0, before, 0};
    case Kind::scatter:
      return {root ? all : 0, own, 0, before};
    case Kind::all_to_all:
      return {all, total_of(shape.receive_counts, shape.count, shape.size), 0, 0};
    case Kind::barrier:
    case Kind::send:  // these two have no schedule
    case Kind::recv:
      return {};
  }
  return {};
}

struct Span {
  std::byte* data;
  std::size_t bytes;
};

bool overlap(const Span& a, const Span& b) { return a.data < b.data + b.bytes && b.data < a.data + a.bytes; }

struct Node {
  Shape shape;
  const Schedule* schedule = nullptr;
  std::vector<std::byte> memory;  // input, output, scratch with guards between
  std::byte* places[3] = {nullptr, nullptr, nullptr};
  std::size_t place_bytes[3] = {0, 0, 0};
  std::uint32_t posted = 0, retired = 0;
  std::vector<bool> move_done;
  std::vector<bool> knows;

  Span span_of(const Extent& extent) const {
    return {places[static_cast<int>(extent.place)] + extent.offset, extent.bytes};
  }
};

struct Loan {
  Rank rank;
  std::uint32_t move;
};

class Machine {
 public:
  Machine(const Simulation& simulation, const std::vector<Schedule>& schedules)
      : simulation_(simulation), random_(simulation.seed), nodes_(schedules.size()) {
    for (std::size_t r = 0; r < schedules.size(); ++r) set_up(nodes_[r], static_cast<Rank>(r), schedules[r]);
    sent_.assign(schedules.size(), 0);
  }

  Simulation::Outcome run() {
    while (fault_.empty() && turn()) {
    }
    for (std::size_t r = 0; r < nodes_.size() && fault_.empty(); ++r) {
      if (nodes_[r].retired < nodes_[r].schedule->steps.size())
        fail(fmt::format("deadlock: rank {} stands", r));
      else if (!knows_all(nodes_[r].knows))
        fail(fmt::format("rank {} ends without having heard from all", r));
    }
    Simulation::Outcome outcome;
    outcome.fault = fault_;
    outcome.bytes_sent = sent_;
    for (Node& node : nodes_) {
      outcome.input.push_back(words(node, Place::input));
      outcome.output.push_back(words(node, Place::output));
    }
    return outcome;
  }

 private:
  void fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }

  void set_up(Node& node, Rank rank, const Schedule& schedule) {
    node.shape = simulation_.shape_of(rank);
    node.schedule = &schedule;
    const Sizes sizes = sizes_of(node.shape);
    const std::size_t guard = 256;
    const std::size_t input = sizes.input * 8, output = sizes.output * 8, scratch = schedule.scratch_bytes;
    node.memory.assign(input + output + scratch + 4 * guard, std::byte{0xa5});
    node.places[0] = node.memory.data() + guard;
    node.places[1] = node.places[0] + input + guard;
    node.places[2] = node.places[1] + output + guard;
    if (node.shape.in_place && sizes.input > 0 && sizes.output > 0) {
      if (input <= output)
        node.places[0] = node.places[1] + sizes.input_at * 8;
      else
        node.places[1] = node.places[0] + sizes.output_at * 8;
    }
    node.place_bytes[0] = input;
    node.place_bytes[1] = output;
    node.place_bytes[2] = scratch;
    const std::vector<Word> words = simulation_.input_of(rank);
    if (!words.empty()) std::memcpy(node.places[0], words.data(), words.size() * 8);
    node.move_done.assign(schedule.moves.size(), false);
    node.knows.assign(static_cast<std::size_t>(node.shape.size), false);
    node.knows[static_cast<std::size_t>(rank)] = true;
  }

  std::vector<Word> words(const Node& node, Place place) const {
    const auto index = static_cast<std::size_t>(place);
    std::vector<Word> words(node.place_bytes[index] / 8);
    if (!words.empty()) std::memcpy(words.data(), node.places[index], words.size() * 8);
    return words;
  }

  static bool knows_all(const std::vector<bool>& knows) {
    return std::ranges::all_of(knows, [](bool known) { return known; });
  }

  /// One random action; false when none is possible.
  bool turn() {
    std::vector<int> order(2 * nodes_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::shuffle(order.begin(), order.end(), random_);
    for (const int choice : order) {
      const auto r = static_cast<std::size_t>(choice / 2);
      if (choice % 2 == 0 ? post(static_cast<Rank>(r)) || retire(static_cast<Rank>(r))
                          : deliver(static_cast<Rank>(r)))
        return true;
    }
    return false;
  }

  bool post(Rank rank) {
    Node& node = nodes_[static_cast<std::size_t>(rank)];
    if (node.posted == node.schedule->steps.size()) return false;
    const Step& step = node.schedule->steps[node.posted];
    if (node.retired < step.after) return false;
    if (node.posted + 1 - node.retired > node.schedule->steps_in_flight)
      fail("more steps in flight than announced");
    ++node.posted;
    for (std::uint32_t m = step.moves.first; m < step.moves.first + step.moves.count; ++m) {
      check_loan(node, m);
      const Move& move = node.schedule->moves[m];
      auto& queue = move.verb == Verb::send ? sends_[{rank, move.peer}] : recvs_[{move.peer, rank}];
      queue.push_back({rank, m});
      if (move.verb == Verb::send) {
        snapshots_[{rank, m}] = node.knows;
        for (const Extent& extent : node.schedule->view(move.local))
          sent_[static_cast<std::size_t>(rank)] += extent.bytes;
      }
      if (queue.size() > node.shape.max_in_flight) fail(fmt::format("rank {} exceeds max_in_flight", rank));
    }
    return true;
  }

  bool inside(const Node& node, const Extent& extent) const {
    return extent.bytes > 0 &&
           extent.offset + extent.bytes <= node.place_bytes[static_cast<std::size_t>(extent.place)];
  }

  void check_loan(const Node& node, std::uint32_t m) {
    const Move& move = node.schedule->moves[m];
    for (const Extent& extent : node.schedule->view(move.local)) {
      if (!inside(node, extent)) return fail("a move outside its buffer");
      check_free(node, node.span_of(extent), move.verb != Verb::send, m);
      if (move.verb != Verb::send && extent.place == Place::input) return fail("a move writes the input");
    }
    for (const Extent& extent : node.schedule->view(move.other)) {
      if (!inside(node, extent)) return fail("an operand outside its buffer");
      check_free(node, node.span_of(extent), false, m);
    }
  }

  /// No byte may be written while it is on loan, nor read while it is a destination.
  void check_free(const Node& node, const Span& span, bool writes, std::uint32_t but) {
    for (std::uint32_t s = node.retired; s < node.posted; ++s) {
      const Run moves = node.schedule->steps[s].moves;
      for (std::uint32_t m = moves.first; m < moves.first + moves.count; ++m) {
        if (m == but || node.move_done[m]) continue;
        const Move& move = node.schedule->moves[m];
        for (const Extent& extent : node.schedule->view(move.local))
          if ((writes || move.verb != Verb::send) && overlap(span, node.span_of(extent)))
            return fail(
                fmt::format("rank {} step {}: memory of an unfinished move", node.shape.rank, node.posted));
        for (const Extent& extent : node.schedule->view(move.other))
          if (writes && overlap(span, node.span_of(extent)))
            return fail(
                fmt::format("rank {} step {}: operand of an unfinished move", node.shape.rank, node.posted));
      }
    }
  }

  /// Moves the oldest message of a random pair to `rank`.
  bool deliver(Rank rank) {
    std::vector<std::pair<Rank, Rank>> ready;
    for (auto& [pair, recvs] : recvs_)
      if (pair.second == rank && !recvs.empty() && !sends_[pair].empty()) ready.push_back(pair);
    if (ready.empty()) return false;
    const auto pair = ready[random_() % ready.size()];
    const Loan from = sends_[pair].front();
    const Loan to = recvs_[pair].front();
    sends_[pair].pop_front();
    recvs_[pair].pop_front();
    transfer(from, to);
    return true;
  }

  std::vector<Word> read(const Node& node, ::rondel::Run run) const {
    std::vector<std::byte> bytes;
    for (const Extent& extent : node.schedule->view(run)) {
      const Span span = node.span_of(extent);
      bytes.insert(bytes.end(), span.data, span.data + span.bytes);
    }
    std::vector<Word> words(bytes.size() / 8);
    if (!words.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
  }

  Word fold(Word first, Word second, double second_share) const {
    if (!simulation_.means) return first + second;
    return std::bit_cast<Word>(std::bit_cast<double>(first) * (1 - second_share) +
                               std::bit_cast<double>(second) * second_share);
  }

  void transfer(const Loan& from, const Loan& to) {
    Node& sender = nodes_[static_cast<std::size_t>(from.rank)];
    Node& receiver = nodes_[static_cast<std::size_t>(to.rank)];
    const Move& move = receiver.schedule->moves[to.move];
    std::vector<Word> words = read(sender, sender.schedule->moves[from.move].local);
    std::size_t room = 0;
    for (const Extent& extent : receiver.schedule->view(move.local)) room += extent.bytes;
    if (room != words.size() * 8)
      return fail(fmt::format("{} bytes meet {} between ranks {} and {}", words.size() * 8, room, from.rank,
                              to.rank));
    if (move.verb == Verb::recv_reduce) {
      const std::vector<Word> own = read(receiver, move.other);
      const auto share = static_cast<double>(move.incoming_share);
      for (std::size_t i = 0; i < words.size(); ++i)
        words[i] = move.incoming_first ? fold(words[i], own[i], 1 - share) : fold(own[i], words[i], share);
    }
    learn(receiver, snapshots_[{from.rank, from.move}]);
    const auto* next = reinterpret_cast<const std::byte*>(words.data());
    for (const Extent& extent : receiver.schedule->view(move.local)) {
      if (extent.place == Place::output && !knows_all(receiver.knows))
        fail("output written before all were heard");
      std::memcpy(receiver.span_of(extent).data, next, extent.bytes);
      next += extent.bytes;
    }
    sender.move_done[from.move] = receiver.move_done[to.move] = true;
  }

  static void learn(Node& node, const std::vector<bool>& known) {
    for (std::size_t i = 0; i < known.size(); ++i)
      if (known[i]) node.knows[i] = true;
  }

  bool retire(Rank rank) {
    Node& node = nodes_[static_cast<std::size_t>(rank)];
    if (node.retired == node.posted) return false;
    const Step& step = node.schedule->steps[node.retired];
    for (std::uint32_t m = step.moves.first; m < step.moves.first + step.moves.count; ++m)
      if (!node.move_done[m]) return false;
    for (std::uint32_t i = step.local.first; i < step.local.first + step.local.count; ++i)
      run_local(node, node.schedule->local[i]);
    ++node.retired;
    return true;
  }

  void run_local(Node& node, const LocalWork& work) {
    const Span to = node.span_of(work.destination);
    if (!inside(node, work.destination)) return fail("local work outside its buffer");
    if (work.destination.place == Place::output && !knows_all(node.knows))
      fail("output made before all were heard");
    check_free(node, to, true, ~0U);
    std::vector<std::vector<Word>> sources;
    for (std::uint32_t i = 0; i < work.sources.count; ++i) {
      const ::rondel::Run one{work.sources.first + i, 1};
      if (!inside(node, node.schedule->view(one)[0])) return fail("a source outside its buffer");
      check_free(node, node.span_of(node.schedule->view(one)[0]), false, ~0U);
      sources.push_back(read(node, one));
    }
    std::vector<Word> result(to.bytes / 8);
    std::memcpy(result.data(), to.data, to.bytes);
    if (work.kind == LocalWork::Kind::copy) result = sources[0];
    if (work.kind == LocalWork::Kind::divide)
      for (Word& word : result) word /= static_cast<Word>(node.shape.size);
    if (work.kind == LocalWork::Kind::fold)
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = fold(sources[0][i], sources[1][i], 0.5);
    if (work.kind == LocalWork::Kind::fold_many) fold_many(result, sources);
    if (result.size() * 8 != to.bytes) return fail("local work with two lengths");
    std::memcpy(to.data, result.data(), to.bytes);
  }

  void fold_many(std::vector<Word>& result, const std::vector<std::vector<Word>>& sources) {
    result = sources[0];
    for (std::size_t s = 1; s < sources.size(); ++s)
      for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = fold(result[i], sources[s][i], 1.0 / static_cast<double>(s + 1));
    if (simulation_.shape.averaging == Averaging::divide)
      for (Word& word : result) word /= static_cast<Word>(simulation_.shape.size);
  }

  const Simulation& simulation_;
  std::mt19937_64 random_;
  std::vector<Node> nodes_;
  std::map<std::pair<Rank, Rank>, std::deque<Loan>> sends_, recvs_;
  std::map<std::pair<Rank, std::uint32_t>, std::vector<bool>> snapshots_;
  std::vector<std::uint64_t> sent_;
  std::string fault_;
};

}  // namespace

Shape Simulation::shape_of(Rank rank) const {
  Shape own = by_rank.empty() ? shape : by_rank[static_cast<std::size_t>(rank)];
  own.rank = rank;
  own.element_bytes = 8;
  return own;
}

std::vector<Word> Simulation::input_of(Rank rank) const {
  std::vector<Word> words(sizes_of(shape_of(rank)).input);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = mix(static_cast<Word>(rank) * 1'000'003 + i);
    if (means) words[i] = std::bit_cast<Word>(static_cast<double>(words[i] % 1000) + 1);
    if (shape.averaging == Averaging::divide) words[i] %= 1'000'000'007;
  }
  return words;
}

std::vector<Schedule> Simulation::schedules() const {
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < shape.size; ++rank) schedules.push_back(make_schedule(shape_of(rank)));
  return schedules;
}

Simulation::Outcome Simulation::run(const std::vector<Schedule>& schedules) const {
  return Machine(*this, schedules).run();
}

std::vector<Word> Simulation::expected_of(Rank rank) const {
  using Kind = CollectiveKind;
  const Shape own = shape_of(rank);
  const Sizes sizes = sizes_of(own);
  std::vector<std::vector<Word>> inputs;
  for (Rank r = 0; r < shape.size; ++r) inputs.push_back(input_of(r));
  std::vector<Word> expected;
  const auto reduced = [&](Word i) {
    if (means) {
      double sum = 0;
      for (const auto& input : inputs) sum += std::bit_cast<double>(input[i]);
      return std::bit_cast<Word>(sum / shape.size);
    }
    Word sum = 0;
    for (const auto& input : inputs) sum += input[i];
    return shape.averaging == Averaging::divide ? sum / static_cast<Word>(shape.size) : sum;
  };
  const auto root = static_cast<std::size_t>(shape.root);
  const Word before = offset_of(own.counts, own.count, rank);
  for (Word i = 0; i < sizes.output; ++i) {
    if (own.kind == Kind::all_reduce || own.kind == Kind::reduce) expected.push_back(reduced(i));
    if (own.kind == Kind::reduce_scatter) expected.push_back(reduced(before + i));
    if (own.kind == Kind::broadcast) expected.push_back(inputs[root][i]);
    if (own.kind == Kind::scatter) expected.push_back(inputs[root][before + i]);
  }
  if (own.kind == Kind::all_gather || (own.kind == Kind::gather && sizes.output > 0))
    for (const auto& input : inputs) expected.insert(expected.end(), input.begin(), input.end());
  if (own.kind == Kind::all_to_all)
    for (Rank from = 0; from < shape.size; ++from) {
      const Shape theirs = shape_of(from);
      const Word begin = offset_of(theirs.counts, theirs.count, rank);
      const Word count = theirs.counts.empty() ? theirs.count : theirs.counts[static_cast<std::size_t>(rank)];
      for (Word i = 0; i < count; ++i) expected.push_back(inputs[static_cast<std::size_t>(from)][begin + i]);
    }
  return expected;
}

std::string Simulation::verdict(const std::vector<Schedule>& schedules) const {
  const Outcome outcome = run(schedules);
  if (!outcome.fault.empty()) return outcome.fault;
  for (Rank rank = 0; rank < shape.size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const std::vector<Word> expected = expected_of(rank);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const bool same = means ? std::abs(std::bit_cast<double>(expected[i]) -
                                         std::bit_cast<double>(outcome.output[r][i])) < 1e-3
                              : expected[i] == outcome.output[r][i];
      if (!same) return fmt::format("rank {} element {} is wrong", rank, i);
      if (means && shape.kind == CollectiveKind::all_reduce && outcome.output[r][i] != outcome.output[0][i])
        return fmt::format("rank {} element {} has other bits than rank 0", rank, i);
    }
    if (!shape.in_place && outcome.input[r] != input_of(rank))
      return fmt::format("rank {}'s input changed", rank);
  }
  return {};
}

std::string describe(const Shape& shape) {
  return fmt::format(
      "{} {} size {} root {} count {} in_place {} segment {} window {} slices {} scratch {} counts {}",
      static_cast<int>(shape.kind), name_of(shape.algorithm), shape.size, shape.root, shape.count,
      shape.in_place, shape.segment_bytes, shape.window, shape.max_slices, shape.scratch_limit_bytes,
      shape.counts.size());
}

}  // namespace rondel::test
