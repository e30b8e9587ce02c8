// SPDX-License-Identifier: Apache-2.0
// StoreService: the server's side of the store without its sockets. Frames of clients go in, frames for
// clients come out, at once or when somebody else sets the key that was waited for. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/memory.h"
#include "lib/status.h"
#include "lib/store/entries.h"
#include "lib/store/protocol.h"

namespace rondel::store {

using ClientId = std::uint64_t;  // the server's name for one connection

struct Outgoing {
  ClientId to = 0;
  Bytes body;
};

class StoreService {
 public:
  /// A failure means that the client speaks nonsense: end its connection.
  Result<std::vector<Outgoing>> take(ClientId client, std::span<const std::byte> body);
  void gone(ClientId client);

 private:
  struct Waiting {
    std::uint32_t request = 0;
    std::set<std::string> missing;
    std::string wanted;  // a get's key; empty for a wait
  };
  using Replies = std::vector<Outgoing>;

  void answer(ClientId client, const Request& request, Replies& out);
  void wait(ClientId client, std::uint32_t request, std::vector<std::string> keys, std::string wanted,
            Replies& out);
  void changed(const std::string& key, Replies& out);
  void give_up(ClientId client);

  Entries entries_;
  std::map<ClientId, Waiting> waiting_;
  std::map<std::string, std::set<ClientId>> waiters_by_key_;
};

}  // namespace rondel::store
