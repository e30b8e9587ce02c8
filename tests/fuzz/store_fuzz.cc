// SPDX-License-Identifier: Apache-2.0
// Several clients of the store say anything, in frames that arrive in any pieces. Input: steps of {u8 client
// and kind, u16 length, bytes}.
#include <cstddef>
#include <cstdint>
#include <map>

#include "lib/check.h"
#include "lib/frame.h"
#include "lib/store/store_service.h"
#include "tests/fuzz/pieces.h"

namespace {

using rondel::check;
namespace store = rondel::store;

class Server {
 public:
  void receive(store::ClientId client, std::span<const std::byte> bytes) {
    auto& reader = readers_.try_emplace(client, store::kFrameLimit).first->second;
    reader.add(bytes);
    for (;;) {
      const auto body = reader.next();
      if (body.ok() && !body->has_value()) return;
      if (!body.ok() || !take(client, **body)) return end(client);
    }
  }
  bool take(store::ClientId client, std::span<const std::byte> body) {
    const auto replies = service_.take(client, body);
    if (!replies.ok()) return false;
    for (const store::Outgoing& one : *replies) {
      check(one.to < 4, "replies go to clients that exist");
      check(store::decode_reply(one.body).ok(), "our own replies can be read");
    }
    return true;
  }
  void end(store::ClientId client) {
    readers_.erase(client);
    service_.gone(client);
  }

 private:
  store::StoreService service_;
  std::map<store::ClientId, rondel::FrameReader> readers_;
};

void check_one_encoding(std::span<const std::byte> bytes) {
  if (const auto request = store::decode_request(bytes); request.ok()) {
    const auto again = store::encode(*request);
    check(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "a request has one encoding");
  }
  static_cast<void>(store::decode_reply(bytes));
  static_cast<void>(store::decode_keys(bytes));
  static_cast<void>(store::decode_sum(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rondel::fuzz::Pieces pieces(data, size);
  Server server;
  while (!pieces.empty()) {
    const std::uint8_t step = pieces.byte();
    const store::ClientId client = step % 4;
    const auto bytes = pieces.blob();
    switch (step / 4 % 4) {
      case 0:
        server.receive(client, bytes);
        break;
      case 1:
        if (!server.take(client, bytes)) server.end(client);
        break;
      case 2:
        check_one_encoding(bytes);
        break;
      default:
        server.end(client);
    }
  }
  return 0;
}
