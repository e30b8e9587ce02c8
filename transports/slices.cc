// SPDX-License-Identifier: Apache-2.0
#include "transports/slices.h"

#include <array>
#include <cstring>

#include "lib/check.h"
#include "lib/reduce.h"

namespace rondel {

namespace {

using Element = std::array<std::byte, 8>;

void fold_run(const Reduction& reduction, std::byte* to, const std::byte* other, const std::byte* incoming,
              std::size_t elements) {
  if (reduction.incoming_first)
    fold(reduction.type, reduction.op, to, incoming, other, elements, 1.0F - reduction.incoming_share);
  else
    fold(reduction.type, reduction.op, to, other, incoming, elements, reduction.incoming_share);
}

void take(SliceCursor& from, std::span<std::byte> element) {
  SliceCursor to(element);
  copy_slices(to, from, element.size());
}

// One element whose bytes are scattered on at least one side: gathered, folded, put back.
void fold_scattered(const Reduction& reduction, SliceCursor& to, SliceCursor& other, SliceCursor& incoming) {
  const std::size_t bytes = size_of(reduction.type);
  Element first{};
  Element second{};
  take(other, std::span(first).first(bytes));
  take(incoming, std::span(second).first(bytes));
  fold_run(reduction, first.data(), first.data(), second.data(), 1);
  SliceCursor from{std::span<std::byte>(first).first(bytes)};
  copy_slices(to, from, bytes);
}

}  // namespace

void copy_slices(SliceCursor& to, SliceCursor& from, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t run = std::min({to.run().size(), from.run().size(), bytes});
    check(run > 0, "both sides of a copy hold all its bytes");
    std::memcpy(to.run().data(), from.run().data(), run);
    to.advance(run);
    from.advance(run);
    bytes -= run;
  }
}

void fold_slices(const Reduction& reduction, SliceCursor& to, SliceCursor& other, SliceCursor& incoming,
                 std::size_t bytes) {
  const std::size_t element_bytes = size_of(reduction.type);
  check(bytes % element_bytes == 0, "a fold covers whole elements");
  while (bytes > 0) {
    const std::size_t common = std::min({to.run().size(), other.run().size(), incoming.run().size(), bytes});
    const std::size_t elements = common / element_bytes;
    if (elements == 0) {
      fold_scattered(reduction, to, other, incoming);
      bytes -= element_bytes;
      continue;
    }
    const std::size_t run = elements * element_bytes;
    fold_run(reduction, to.run().data(), other.run().data(), incoming.run().data(), elements);
    to.advance(run);
    other.advance(run);
    incoming.advance(run);
    bytes -= run;
  }
}

}  // namespace rondel
