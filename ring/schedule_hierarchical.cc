// SPDX-License-Identifier: Apache-2.0
// The hierarchical all-reduce, for hosts of which some hold several ranks. Shape::places says who shares a
// host; hosts are meant by number here, in the order of their lowest rank.
//
// The vector is cut into as many slices as the largest host has ranks, and on every host each slice has one
// rank that drives it: 1. the ranks of a host reduce each slice to its driver; 2. the drivers of one slice
// all-reduce it round the ring of hosts; 3. each driver gives its slices to its host. So with H hosts 2 (H-1)
// / H of the vector leaves and enters each host, the least there can be, however many ranks it holds, and all
// its ranks share that work.
//
// A slice is cut into blocks that go through these phases one behind the other: phase p of block b is in step
// p*D + b, with a window of D steps, so that the link between hosts always has a block under way while others
// are reduced inside.
#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/check.h"
#include "ring/schedule_builder.h"

namespace rondel {
namespace {

/// Which ranks share a host, and which of them drives which slice.
class Hosts {
 public:
  explicit Hosts(const Shape& shape);

  std::size_t count() const { return hosts_.size(); }
  std::size_t slices() const { return slices_; }
  const std::vector<Rank>& ranks(std::size_t host) const { return hosts_[host]; }
  std::size_t host_of(Rank rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  std::size_t index_of(Rank rank) const;
  Rank driver(std::size_t host, std::size_t slice) const { return hosts_[host][slice % hosts_[host].size()]; }
  /// The most slices that one rank drives.
  std::size_t most_driven() const;
  /// The most slices that two ranks of neighbouring hosts exchange.
  std::size_t most_shared() const;

 private:
  std::vector<std::vector<Rank>> hosts_;
  std::vector<std::size_t> host_of_;
  std::size_t slices_ = 0;
};

Hosts::Hosts(const Shape& shape) {
  std::vector<std::size_t> host_of_place(static_cast<std::size_t>(shape.size));
  for (Rank rank = 0; rank < shape.size; ++rank) {
    const std::uint32_t place = shape.places[static_cast<std::size_t>(rank)];
    if (place == static_cast<std::uint32_t>(rank)) {  // the lowest of its place
      host_of_place[place] = hosts_.size();
      hosts_.emplace_back();
    }
    host_of_.push_back(host_of_place[place]);
    hosts_[host_of_.back()].push_back(rank);
    slices_ = std::max(slices_, hosts_[host_of_.back()].size());
  }
}

std::size_t Hosts::index_of(Rank rank) const {
  const std::vector<Rank>& ranks = hosts_[host_of(rank)];
  return static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
}

std::size_t Hosts::most_driven() const {
  std::size_t most = 0;
  for (const auto& ranks : hosts_) most = std::max(most, pieces_for(slices_, ranks.size()));
  return most;
}

std::size_t Hosts::most_shared() const {
  std::size_t most = 0;
  for (std::size_t host = 0; host < count(); ++host) {
    const std::size_t next = (host + 1) % count();
    most = std::max(most, pieces_for(slices_, std::lcm(hosts_[host].size(), hosts_[next].size())));
  }
  return most;
}

/// The most works with one peer and direction in one step.
std::size_t works_per_step(const Shape& shape, const Hosts& hosts) {
  const std::size_t hops = hosts.count() - 1;
  const std::size_t each = shape.averaging == Averaging::weighted ? hops + 1 : 2;
  return std::max<std::size_t>(2, hosts.most_shared() * each);
}

class Hierarchy {
 public:
  explicit Hierarchy(ScheduleBuilder& builder);
  void write();

 private:
  const Shape& shape() const { return builder_.shape(); }
  std::size_t hops() const { return hosts_.count() - 1; }
  std::size_t rounds_inside() const { return hosts_.slices() - 1; }  // of the largest host
  std::size_t phases() const { return rounds_inside() + 2 * hops() + 1; }
  Rank local(std::size_t distance) const { return own_ranks_[(index_ + distance) % own_ranks_.size()]; }
  /// Where this host's own sum of a slice that this rank drives is before the first hop.
  Place held() const { return own_ranks_.size() > 1 ? Place::output : Place::input; }

  /// Which block is in `phase` in step `step`, if any.
  bool block_in(std::size_t step, std::size_t phase, std::uint64_t& block) const;
  Range block_of(std::size_t slice, std::uint64_t block) const;
  Range chunk_of(std::size_t slice, std::uint64_t block, std::size_t host) const;
  Extent at(Place place, Range elements) const { return extent_of(shape(), place, elements); }
  /// The block of all slices that `driver` drives, as it lies in `place`.
  ExtentList driven_by(Rank driver, Place place, std::uint64_t block) const;
  std::size_t host_behind(std::size_t distance) const {
    return (host_ + hosts_.count() - distance % hosts_.count()) % hosts_.count();
  }

  Rank next_driver(std::size_t slice) const { return hosts_.driver((host_ + 1) % hosts_.count(), slice); }
  Rank prev_driver(std::size_t slice) const { return hosts_.driver(host_behind(1), slice); }

  void reduce_inside(std::size_t round, std::uint64_t block);
  void reduce_between(std::size_t slice, std::size_t step);
  void gather_between(std::size_t slice, std::size_t step);
  void gather_inside(std::uint64_t block);
  Fold fold_of_hop(std::size_t hop) const;

  ScheduleBuilder& builder_;
  const Hosts hosts_;
  const std::size_t host_;
  const std::vector<Rank>& own_ranks_;
  const std::size_t index_;  // among them
  std::uint64_t blocks_ = 1;
  std::size_t window_ = 1;
};

Hierarchy::Hierarchy(ScheduleBuilder& builder)
    : builder_(builder),
      hosts_(builder.shape()),
      host_(hosts_.host_of(builder.rank())),
      own_ranks_(hosts_.ranks(host_)),
      index_(hosts_.index_of(builder.rank())) {
  const std::uint64_t segment = std::max<std::uint64_t>(1, shape().segment_bytes / shape().element_bytes);
  blocks_ = pieces_for(pieces_for(shape().count, hosts_.slices()), segment * hosts_.count());
  const std::size_t room = shape().max_in_flight / works_per_step(shape(), hosts_);
  window_ = std::max<std::size_t>(1, std::min<std::uint64_t>({shape().window, room, blocks_}));
}

bool Hierarchy::block_in(std::size_t step, std::size_t phase, std::uint64_t& block) const {
  const std::size_t first = phase * window_;
  block = step - first;
  return step >= first && block < blocks_;
}

Range Hierarchy::block_of(std::size_t slice, std::uint64_t block) const {
  const Range whole = part_of(shape().count, hosts_.slices(), slice);
  const Range in_slice = part_of(whole.count, blocks_, block);
  return {whole.begin + in_slice.begin, in_slice.count};
}

Range Hierarchy::chunk_of(std::size_t slice, std::uint64_t block, std::size_t host) const {
  const Range whole = block_of(slice, block);
  const Range in_block = part_of(whole.count, hosts_.count(), host);
  return {whole.begin + in_block.begin, in_block.count};
}

ExtentList Hierarchy::driven_by(Rank driver, Place place, std::uint64_t block) const {
  ExtentList extents;
  for (std::size_t slice = hosts_.index_of(driver); slice < hosts_.slices(); slice += own_ranks_.size())
    extents.add(at(place, block_of(slice, block)));
  return extents;
}

/// Round r: what the r-th next rank drives goes to it, and the r-th last adds to what this rank drives.
void Hierarchy::reduce_inside(std::size_t round, std::uint64_t block) {
  if (round >= own_ranks_.size()) return;
  builder_.send(local(round), driven_by(local(round), Place::input, block));
  const Place before = round == 1 ? Place::input : Place::output;
  builder_.recv_reduce(local(own_ranks_.size() - round), driven_by(builder_.rank(), Place::output, block),
                       driven_by(builder_.rank(), before, block), {false, share_of(1, round)});
}

/// In hop j the sum of the j + 1 hosts behind meets this host's own.
Fold Hierarchy::fold_of_hop(std::size_t hop) const {
  std::size_t incoming = 0;
  for (std::size_t back = 1; back <= hop + 1; ++back) incoming += hosts_.ranks(host_behind(back)).size();
  return {false, share_of(incoming, own_ranks_.size())};
}

/// All hops of the ring's first half that have a block in this step, in one message where they fold alike.
void Hierarchy::reduce_between(std::size_t slice, std::size_t step) {
  const bool apart = shape().averaging == Averaging::weighted;
  ExtentList leaving, arriving, before;
  const auto put_down = [&](std::size_t hop) {
    builder_.send(next_driver(slice), std::exchange(leaving, {}));
    builder_.recv_reduce(prev_driver(slice), std::exchange(arriving, {}), std::exchange(before, {}),
                         fold_of_hop(hop));
  };
  for (std::size_t hop = 0; hop < hops(); ++hop) {
    std::uint64_t block = 0;
    if (!block_in(step, rounds_inside() + hop, block)) continue;
    leaving.add(at(hop == 0 ? held() : Place::output, chunk_of(slice, block, host_behind(hop + 1))));
    const Range folded = chunk_of(slice, block, host_behind(hop + 2));
    arriving.add(at(Place::output, folded));
    before.add(at(held(), folded));
    if (apart) put_down(hop);
    if (hop + 1 == hops() && shape().averaging == Averaging::divide)
      builder_.divide(at(Place::output, folded));
  }
  if (!apart) put_down(0);
}

/// The second half, likewise.
void Hierarchy::gather_between(std::size_t slice, std::size_t step) {
  ExtentList leaving, arriving;
  for (std::size_t hop = 0; hop < hops(); ++hop) {
    std::uint64_t block = 0;
    if (!block_in(step, rounds_inside() + hops() + hop, block)) continue;
    leaving.add(at(Place::output, chunk_of(slice, block, host_behind(hop))));
    arriving.add(at(Place::output, chunk_of(slice, block, host_behind(hop + 1))));
  }
  builder_.send(next_driver(slice), leaving);
  builder_.recv(prev_driver(slice), arriving);
}

void Hierarchy::gather_inside(std::uint64_t block) {
  for (std::size_t distance = 1; distance < own_ranks_.size(); ++distance) {
    builder_.send(local(distance), driven_by(builder_.rank(), Place::output, block));
    const Rank peer = local(own_ranks_.size() - distance);
    builder_.recv(peer, driven_by(peer, Place::output, block));
  }
}

void Hierarchy::write() {
  builder_.agree();
  const std::size_t steps = window_ * (phases() - 1) + blocks_;
  for (std::size_t step = 0; step < steps; ++step) {
    builder_.windowed_step(static_cast<std::uint32_t>(window_));
    std::uint64_t block = 0;
    for (std::size_t round = 1; round <= rounds_inside(); ++round)
      if (block_in(step, round - 1, block)) reduce_inside(round, block);
    for (std::size_t slice = index_; slice < hosts_.slices(); slice += own_ranks_.size()) {
      reduce_between(slice, step);
      gather_between(slice, step);
    }
    if (block_in(step, phases() - 1, block)) gather_inside(block);
  }
}

}  // namespace

bool hierarchical_fits(const Shape& shape) {
  if (shape.places.size() != static_cast<std::size_t>(shape.size)) return false;
  const Hosts hosts(shape);
  const std::size_t hops = hosts.count() - 1;
  return hosts.count() > 1 && hosts.slices() > 1 && hops <= shape.max_slices &&
         hosts.most_driven() <= shape.max_slices && works_per_step(shape, hosts) <= shape.max_in_flight;
}

void write_hierarchical(ScheduleBuilder& builder) { Hierarchy(builder).write(); }

}  // namespace rondel
