// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "lib/nearest_name.h"

namespace rondel::bench {
namespace {

std::size_t index_of(Rank rank) { return static_cast<std::size_t>(rank); }

/// One part of `count` from each rank in turn; part p starts at `source_first` of rank p's input.
std::vector<ExpectedPart> one_from_each(const Shape& shape, std::size_t source_first) {
  std::vector<ExpectedPart> parts;
  parts.reserve(index_of(shape.ranks));
  for (Rank p = 0; p < shape.ranks; ++p)
    parts.push_back({index_of(p) * shape.count, shape.count, p, source_first});
  return parts;
}

std::size_t all(const Shape& s) { return index_of(s.ranks) * s.count; }
std::size_t own(const Shape& s) { return index_of(s.rank) * s.count; }
bool at_root(const Shape& s) { return s.rank == s.root; }

Layout allreduce_layout(const Shape& s) { return {s.count, s.count, 0, 0, {{0, s.count, kNoRank, 0}}}; }
Layout reduce_scatter_layout(const Shape& s) {
  return {all(s), s.count, 0, own(s), {{0, s.count, kNoRank, own(s)}}};
}
Layout allgather_layout(const Shape& s) { return {s.count, all(s), own(s), 0, one_from_each(s, 0)}; }
Layout broadcast_layout(const Shape& s) { return {s.count, s.count, 0, 0, {{0, s.count, s.root, 0}}}; }
Layout reduce_layout(const Shape& s) {
  if (!at_root(s)) return {s.count, 0, 0, 0, {}};
  return {s.count, s.count, 0, 0, {{0, s.count, kNoRank, 0}}};
}
Layout gather_layout(const Shape& s) {
  if (!at_root(s)) return {s.count, 0, 0, 0, {}};
  return {s.count, all(s), own(s), 0, one_from_each(s, 0)};
}
Layout scatter_layout(const Shape& s) {
  const std::vector<ExpectedPart> expected{{0, s.count, s.root, own(s)}};
  if (!at_root(s)) return {0, s.count, 0, 0, expected};
  return {all(s), s.count, 0, own(s), expected};
}
Layout alltoall_layout(const Shape& s) { return {all(s), all(s), 0, 0, one_from_each(s, own(s))}; }
Layout sendrecv_layout(const Shape& s) {
  return {s.count, s.count, 0, 0, {{0, s.count, (s.rank + s.ranks - 1) % s.ranks, 0}}};
}
/// Ranks 0 and 1, 2 and 3, ...; the last of an odd number has none.
Rank partner_of(const Shape& s) { return (s.rank ^ 1) < s.ranks ? s.rank ^ 1 : kNoRank; }
Layout pingpong_layout(const Shape& s) {
  if (partner_of(s) == kNoRank) return {s.count, s.count, 0, 0, {}};
  return {s.count, s.count, 0, 0, {{0, s.count, partner_of(s), 0}}};
}
Layout barrier_layout(const Shape&) { return {}; }

rondel_dtype_t type_of(const Call& c) { return static_cast<rondel_dtype_t>(c.type); }
rondel_op_t op_of(const Call& c) { return static_cast<rondel_op_t>(c.op); }

rondel_status_t run_allreduce(const Call& c) {
  return rondel_allreduce(c.comm, c.input, c.output, c.shape.count, type_of(c), op_of(c));
}
rondel_status_t run_reduce_scatter(const Call& c) {
  return rondel_reduce_scatter(c.comm, c.input, c.output, c.shape.count, type_of(c), op_of(c));
}
rondel_status_t run_allgather(const Call& c) {
  return rondel_allgather(c.comm, c.input, c.output, c.shape.count, type_of(c));
}
rondel_status_t run_broadcast(const Call& c) {
  return rondel_broadcast(c.comm, c.input, c.output, c.shape.count, type_of(c), c.shape.root);
}
rondel_status_t run_reduce(const Call& c) {
  return rondel_reduce(c.comm, c.input, c.output, c.shape.count, type_of(c), op_of(c), c.shape.root);
}
rondel_status_t run_gather(const Call& c) {
  return rondel_gather(c.comm, c.input, c.output, c.shape.count, type_of(c), c.shape.root);
}
rondel_status_t run_scatter(const Call& c) {
  return rondel_scatter(c.comm, c.input, c.output, c.shape.count, type_of(c), c.shape.root);
}
rondel_status_t run_alltoall(const Call& c) {
  return rondel_alltoall(c.comm, c.input, c.output, c.shape.count, type_of(c));
}
rondel_status_t run_barrier(const Call& c) { return rondel_barrier(c.comm); }

/// Each rank sends to the next one and receives from the one before, at the same time.
rondel_status_t run_sendrecv(const Call& c) {
  const Rank next = (c.shape.rank + 1) % c.shape.ranks;
  const Rank previous = (c.shape.rank + c.shape.ranks - 1) % c.shape.ranks;
  rondel_request_t sending = nullptr;
  const rondel_status_t started = rondel_isend(c.comm, c.input, c.shape.count, type_of(c), next, &sending);
  if (started != RONDEL_OK) return started;
  const rondel_status_t received = rondel_recv(c.comm, c.output, c.shape.count, type_of(c), previous);
  const rondel_status_t sent = rondel_wait(&sending, -1);
  return received != RONDEL_OK ? received : sent;
}

/// The smaller rank of a pair sends, and its partner answers: a round trip.
rondel_status_t run_pingpong(const Call& c) {
  const Rank partner = partner_of(c.shape);
  if (partner == kNoRank) return RONDEL_OK;
  const auto send = [&] { return rondel_send(c.comm, c.input, c.shape.count, type_of(c), partner); };
  const auto receive = [&] { return rondel_recv(c.comm, c.output, c.shape.count, type_of(c), partner); };
  const bool begins = c.shape.rank < partner;
  const rondel_status_t first = begins ? send() : receive();
  if (first != RONDEL_OK) return first;
  return begins ? receive() : send();
}

double all_reduce_factor(double n) { return 2 * (n - 1) / n; }
double share_factor(double n) { return (n - 1) / n; }
double unit_factor(double) { return 1; }

// name, reduces, has_root, has_data, in_place, parts, least_ranks, layout, run, bus_factor
constexpr std::array<Collective, 11> kCollectives{{
    {"allreduce", true, false, true, true, false, 1, allreduce_layout, run_allreduce, all_reduce_factor},
    {"reduce_scatter", true, false, true, true, true, 1, reduce_scatter_layout, run_reduce_scatter,
     share_factor},
    {"allgather", false, false, true, true, true, 1, allgather_layout, run_allgather, share_factor},
    {"broadcast", false, true, true, true, false, 1, broadcast_layout, run_broadcast, unit_factor},
    {"reduce", true, true, true, true, false, 1, reduce_layout, run_reduce, unit_factor},
    {"gather", false, true, true, true, true, 1, gather_layout, run_gather, share_factor},
    {"scatter", false, true, true, true, true, 1, scatter_layout, run_scatter, share_factor},
    {"alltoall", false, false, true, false, true, 1, alltoall_layout, run_alltoall, share_factor},
    {"sendrecv", false, false, true, false, false, 2, sendrecv_layout, run_sendrecv, unit_factor},
    {"pingpong", false, false, true, false, false, 2, pingpong_layout, run_pingpong, unit_factor},
    {"barrier", false, false, false, false, false, 1, barrier_layout, run_barrier, unit_factor},
}};

std::string letters_of(std::string_view name) {
  std::string letters(name);
  std::erase_if(letters, [](char c) { return c == '_' || c == '-'; });
  return letters;
}

}  // namespace

std::span<const Collective> collectives() { return kCollectives; }

std::string collective_names() {
  std::string names;
  for (const Collective& collective : kCollectives)
    names.append(names.empty() ? "" : ", ").append(collective.name);
  return names;
}

Result<const Collective*> find_collective(std::string_view name) {
  std::vector<std::string_view> names;
  names.reserve(kCollectives.size());
  for (const Collective& collective : kCollectives) {
    if (letters_of(collective.name) == letters_of(name)) return &collective;
    names.push_back(collective.name);
  }
  const std::string_view nearest = nearest_name(name, names);
  const std::string guess = nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest);
  return Status(Code::invalid_argument,
                fmt::format("\"{}\" is no collective{}; there are {}", name, guess, collective_names()));
}

}  // namespace rondel::bench
