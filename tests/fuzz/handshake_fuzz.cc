// SPDX-License-Identifier: Apache-2.0
// The handshake under any bytes in either role, and true sessions with changed, cut, repeated and swapped
// messages. What an outsider does to the first three messages must end in no completed handshake on the side
// that received it.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/auth.h"
#include "lib/check.h"
#include "tests/fuzz/pieces.h"

namespace {

using rondel::Bytes;
using rondel::check;
using rondel::Handshake;
using rondel::Secret;
using rondel::fuzz::Pieces;

const Secret& secret() {
  static const Secret made = *Secret::generate();
  return made;
}

const Bytes kPayload(16);

Handshake responder() {
  return *Handshake::responder(secret(), kPayload, [](std::span<const std::byte> payload) {
    check(payload.size() == kPayload.size(), "the judge sees only what a peer with the secret sent");
    return rondel::Status();
  });
}

/// Feeds in pieces of `step` bytes, never more than wanted when `polite`.
rondel::Result<Bytes> feed(Handshake& to, std::span<const std::byte> bytes, std::size_t step, bool polite) {
  Bytes replies;
  while (!bytes.empty() && !(polite && to.done())) {
    const std::size_t most = polite ? std::min(step, to.wants()) : step;
    const auto taken = bytes.first(std::min(bytes.size(), std::max<std::size_t>(1, most)));
    bytes = bytes.subspan(taken.size());
    const auto reply = to.feed(taken);
    if (!reply.ok()) {
      check(to.farewell().size() <= 4096, "a farewell is short");
      check(!to.done(), "a failed handshake is not done");
      return reply;
    }
    replies.insert(replies.end(), reply->begin(), reply->end());
  }
  return replies;
}

void stranger(Pieces& pieces, bool initiating) {
  Handshake handshake = initiating ? *Handshake::initiator(secret(), kPayload) : responder();
  const std::size_t step = 1 + pieces.byte();
  static_cast<void>(feed(handshake, pieces.bytes(1 << 16), step, pieces.byte() % 2 == 0));
  check(!handshake.done(), "bytes made without the secret complete nothing");
}

/// Does to a message what a step of the input says.
void tamper(Pieces& pieces, Bytes& message, const Bytes& earlier) {
  switch (pieces.byte() % 6) {
    case 1:
      for (int i = pieces.byte() % 8; i >= 0 && !message.empty(); --i)
        message[pieces.number() % message.size()] ^= static_cast<std::byte>(pieces.byte());
      break;
    case 2:
      message.resize(message.size() - std::min<std::size_t>(message.size(), pieces.byte()));
      break;
    case 3:
      message.insert(message.begin() + static_cast<std::ptrdiff_t>(pieces.number() % (message.size() + 1)),
                     static_cast<std::byte>(pieces.byte()));
      break;
    case 4:
      message = earlier;
      break;
    case 5: {
      const auto other = pieces.blob();
      message.assign(other.begin(), other.end());
      break;
    }
    default:
      break;
  }
}

bool begins_with(const Bytes& whole, const Bytes& start) {
  return whole.size() >= start.size() && std::equal(start.begin(), start.end(), whole.begin());
}

void session(Pieces& pieces) {
  Handshake a = *Handshake::initiator(secret(), kPayload);
  Handshake b = responder();
  const std::size_t step = 1 + pieces.byte();
  Bytes message = a.opening();
  Bytes earlier;
  bool changed = false;  // before b has decided
  for (int turn = 0; turn < 4; ++turn) {
    Bytes shown = message;
    tamper(pieces, shown, earlier);
    // What follows the challenge fails only its reader, too late for b; what follows the proof is left
    // unread.
    const bool same = turn == 0 ? shown == message : begins_with(shown, message);
    changed = changed || (turn < 3 && !same);
    const auto reply = feed(turn % 2 == 0 ? b : a, shown, step, true);
    if (changed) check(!b.done(), "a changed session is not accepted");
    if (!reply.ok()) return;
    earlier = std::exchange(message, *reply);
  }
  if (!changed) check(b.done(), "an unchanged session is accepted");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Pieces pieces(data, size);
  switch (pieces.byte() % 3) {
    case 0:
      stranger(pieces, false);
      break;
    case 1:
      stranger(pieces, true);
      break;
    default:
      session(pieces);
  }
  return 0;
}
