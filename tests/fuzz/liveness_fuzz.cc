// SPDX-License-Identifier: Apache-2.0
// Several members say anything at any time. Input: steps of {u8 member and kind, u8 time, u16 length, bytes}.
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "lib/check.h"
#include "lib/liveness/service.h"
#include "tests/fuzz/pieces.h"

namespace {

using rondel::check;
namespace liveness = rondel::liveness;

void check_ours(const std::vector<liveness::Outgoing>& messages) {
  for (const liveness::Outgoing& one : messages)
    check(liveness::decode_to_member(one.body).ok(), "our own messages can be read");
}

void check_one_encoding(std::span<const std::byte> bytes) {
  static_cast<void>(liveness::decode_to_member(bytes));
  const auto message = liveness::decode_to_server(bytes);
  if (!message.ok()) return;
  const auto again = liveness::encode(*message);
  check(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "a message has one encoding");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rondel::fuzz::Pieces pieces(data, size);
  liveness::Service service;
  liveness::TimePoint now{};
  while (!pieces.empty()) {
    const std::uint8_t step = pieces.byte();
    const liveness::MemberId member = step % 4;
    now += std::chrono::milliseconds(4 * pieces.byte());
    const auto bytes = pieces.blob();
    switch (step / 4 % 4) {
      case 0: {
        const auto out = service.take(member, bytes, now);
        check_ours(out.ok() ? *out : service.gone(member, ""));
        break;
      }
      case 1:
        check_ours(service.gone(member, "reset"));
        break;
      case 2:
        check_one_encoding(bytes);
        break;
      default:
        check_ours(service.tick(now));
    }
  }
  // Every verdict comes at last.
  check_ours(service.tick(now + std::chrono::hours(1)));
  check(service.next_tick() == liveness::TimePoint::max(), "nothing is pending after every grace");
  return 0;
}
