// SPDX-License-Identifier: Apache-2.0
// What a store client and the job's server say to each other, one message per frame, and how it is written.
// Pure: bytes in, values out; every length is checked before it is believed. Any thread.
//
// Request body: u32 id, u8 kind, then  set: text key, blob value | get: text key | add: text key, u64
// increment | wait, missing: u32 count, text keys.  Reply body: u32 id, u8 code, blob value, text cause. A
// client has one request under way; a new one replaces a get or wait that it gave up. Replies carry their
// request's id so that a late one can be told apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lib/memory.h"
#include "lib/status.h"
#include "lib/store/store.h"

namespace rondel::store {

inline constexpr std::size_t kFrameLimit = kStoreValueLimit + kStoreKeyLimit + 64;  // bytes of a body
inline constexpr std::size_t kKeysPerRequest = kFrameLimit / (kStoreKeyLimit + 4) - 1;

struct SetRequest {
  std::string key;
  Bytes value;
};
struct GetRequest {  // answered once the key is set
  std::string key;
};
struct AddRequest {
  std::string key;
  std::int64_t increment = 0;
};
struct WaitRequest {  // answered once all are set
  std::vector<std::string> keys;
};
struct MissingRequest {  // answered at once with those that are not set
  std::vector<std::string> keys;
};

struct Request {
  std::uint32_t id = 0;
  std::variant<SetRequest, GetRequest, AddRequest, WaitRequest, MissingRequest> what;
};

struct Reply {
  std::uint32_t id = 0;
  Code code = Code::ok;
  Bytes value;        ///< get: the value; add: encode_sum; missing: encode_keys
  std::string cause;  ///< of a failure
};

Bytes encode(const Request& request);
Result<Request> decode_request(std::span<const std::byte> body);
Bytes encode(const Reply& reply);
Result<Reply> decode_reply(std::span<const std::byte> body);

Bytes encode_sum(std::int64_t sum);
Result<std::int64_t> decode_sum(std::span<const std::byte> bytes);
Bytes encode_keys(std::span<const std::string> keys);
Result<std::vector<std::string>> decode_keys(std::span<const std::byte> bytes);

}  // namespace rondel::store
