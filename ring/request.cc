// SPDX-License-Identifier: Apache-2.0
#include "ring/request.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <functional>
#include <limits>

namespace rondel {
namespace {

constexpr std::uint64_t kBytesLimit = std::numeric_limits<std::int64_t>::max();

bool takes_counts(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather ||
         kind == CollectiveKind::gather || kind == CollectiveKind::scatter ||
         kind == CollectiveKind::all_to_all;
}

Status wrong(const CollectiveRequest& request, std::string_view what, std::string hint = {}) {
  return Status(Code::invalid_argument, fmt::format("{}: {}", describe(request), what), std::move(hint));
}

/// Elements of one rank and of all; the sum may not leave 63 bits of bytes.
struct Elements {
  std::uint64_t own = 0;
  std::uint64_t before = 0;
  std::uint64_t all = 0;
};

bool add_up(std::span<const std::uint64_t> counts, std::uint64_t count, Rank rank, Rank size,
            Elements& elements) {
  const auto ranks = static_cast<std::uint64_t>(size);
  elements.own = count;
  if (counts.empty()) {
    elements.before = count * static_cast<std::uint64_t>(rank);  // fits when `all` does
    return !__builtin_mul_overflow(count, ranks, &elements.all);
  }
  elements.own = counts[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (static_cast<Rank>(i) == rank) elements.before = elements.all;
    if (__builtin_add_overflow(elements.all, counts[i], &elements.all)) return false;
  }
  return true;
}

bool to_bytes(std::uint64_t elements, DataType type, std::uint64_t& bytes) {
  return !__builtin_mul_overflow(elements, size_of(type), &bytes) && bytes <= kBytesLimit;
}

/// Elements behind input and output, and where in one of them the other lies when the call is in place.
struct Layout {
  std::uint64_t input = 0, output = 0;
  std::uint64_t input_at = 0, output_at = 0;
};

Layout layout_of(const CollectiveRequest& request, bool root, const Elements& sent,
                 const Elements& received) {
  using Kind = CollectiveKind;
  const std::uint64_t count = request.count;
  switch (request.kind) {
    case Kind::all_reduce:
      return {count, count, 0, 0};
    case Kind::reduce_scatter:
      return {sent.all, sent.own, 0, sent.before};
    case Kind::all_gather:
      return {sent.own, sent.all, sent.before, 0};
    case Kind::broadcast:
      return {root ? count : 0, count, 0, 0};
    case Kind::reduce:
      return {count, root ? count : 0, 0, 0};
    case Kind::gather:
      return {sent.own, root ? sent.all : 0, sent.before, 0};
    case Kind::scatter:
      return {root ? sent.all : 0, sent.own, 0, sent.before};
    case Kind::all_to_all:
      return {sent.all, received.all, 0, 0};
    case Kind::barrier:
      return {};
    case Kind::send:
      return {count, 0, 0, 0};
    case Kind::recv:
      return {0, count, 0, 0};
  }
  return {};
}

Status check_ranks(const CollectiveRequest& request, Rank rank, Rank size) {
  const bool peer = point_to_point(request.kind);
  if ((peer || has_root(request.kind)) && (request.root < 0 || request.root >= size))
    return wrong(request, fmt::format("{} {} is not among the ranks 0 to {}", peer ? "peer" : "root",
                                      request.root, size - 1));
  if (peer && request.root == rank)
    return wrong(request, "a rank can not send to or receive from itself", "copy the data instead");
  return {};
}

Status check_counts(const CollectiveRequest& request, Rank size) {
  const auto fits = [size](std::span<const std::uint64_t> counts) {
    return counts.empty() || counts.size() == static_cast<std::size_t>(size);
  };
  if (!takes_counts(request.kind) && !request.counts.empty())
    return wrong(request, "counts per rank were given, but this collective has one count");
  if (!fits(request.counts) || !fits(request.receive_counts))
    return wrong(request, fmt::format("{} counts and {} receive counts were given for {} ranks",
                                      request.counts.size(), request.receive_counts.size(), size));
  const bool all_to_all = request.kind == CollectiveKind::all_to_all;
  if (all_to_all ? request.counts.empty() != request.receive_counts.empty() : !request.receive_counts.empty())
    return wrong(request, "receive counts go with the counts of an alltoall, both or neither");
  return {};
}

Status check_buffers(const CollectiveRequest& request, const Layout& layout, Footprint& footprint) {
  const auto* input = static_cast<const std::byte*>(request.input);
  const auto* output = static_cast<const std::byte*>(request.output);
  if (footprint.input_bytes > 0 && input == nullptr) return wrong(request, "the input buffer is null");
  if (footprint.output_bytes > 0 && output == nullptr) return wrong(request, "the output buffer is null");
  if (footprint.input_bytes == 0 || footprint.output_bytes == 0) return {};
  const std::size_t width = size_of(request.type);
  const std::less<> before;
  const bool apart =
      !before(input, output + footprint.output_bytes) || !before(output, input + footprint.input_bytes);
  if (apart) return {};
  footprint.in_place = request.kind != CollectiveKind::all_to_all &&
                       input + layout.output_at * width == output + layout.input_at * width;
  if (!footprint.in_place)
    return wrong(request, "input and output overlap in a way that is not the collective's in-place form");
  return {};
}

}  // namespace

std::string_view name_of(CollectiveKind kind) {
  constexpr std::array<std::string_view, 11> kNames{"allreduce", "reduce_scatter", "allgather", "broadcast",
                                                    "reduce",    "gather",         "scatter",   "alltoall",
                                                    "barrier",   "send",           "recv"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

std::string_view name_of(Purpose purpose) { return purpose == Purpose::split ? "split" : "finalize"; }

std::string describe_rest(const CollectiveRequest& request) {
  if (request.kind == CollectiveKind::barrier) return {};
  std::string text = request.counts.empty()
                         ? fmt::format(" of {} {}", request.count, name_of(request.type))
                         : fmt::format(" of {} with counts per rank", name_of(request.type));
  if (reduces(request.kind)) text += fmt::format(" {}", name_of(request.op));
  if (request.kind == CollectiveKind::broadcast || request.kind == CollectiveKind::scatter ||
      request.kind == CollectiveKind::recv)
    text += fmt::format(" from rank {}", request.root);
  if (request.kind == CollectiveKind::reduce || request.kind == CollectiveKind::gather ||
      request.kind == CollectiveKind::send)
    text += fmt::format(" to rank {}", request.root);
  return text;
}

}  // namespace

std::string describe(const CollectiveRequest& request) {
  if (request.purpose != Purpose::itself) return std::string(name_of(request.purpose));
  return std::string(name_of(request.kind)) + describe_rest(request);
}

std::string describe(const CollectiveRequest& request, std::uint64_t sequence) {
  if (request.purpose != Purpose::itself) return fmt::format("{} #{}", name_of(request.purpose), sequence);
  return fmt::format("{} #{}{}", name_of(request.kind), sequence, describe_rest(request));
}

Result<Footprint> check_request(const CollectiveRequest& request, Rank rank, Rank size) {
  RONDEL_TRY(check_ranks(request, rank, size));
  RONDEL_TRY(check_counts(request, size));
  if (reduces(request.kind) && !supports(request.type, request.op))
    return Status(
        Code::unsupported,
        fmt::format("{}: {} has no {}", describe(request), name_of(request.type), name_of(request.op)),
        is_floating(request.type) ? "bitwise operators are for integers and booleans"
                                  : "convert to a numeric type to average");
  Elements sent, received;
  const bool whole = add_up(request.counts, request.count, rank, size, sent) &&
                     add_up(request.receive_counts, request.count, rank, size, received);
  const Layout layout = layout_of(request, request.root == rank, sent, received);
  Footprint footprint;
  std::uint64_t all_bytes = 0;
  const bool concatenates = takes_counts(request.kind);
  if ((concatenates && (!whole || !to_bytes(sent.all, request.type, all_bytes))) ||
      !to_bytes(layout.input, request.type, footprint.input_bytes) ||
      !to_bytes(layout.output, request.type, footprint.output_bytes))
    return wrong(request, "the buffer would be larger than 2^63 - 1 bytes");
  RONDEL_TRY(check_buffers(request, layout, footprint));
  return footprint;
}

}  // namespace rondel
