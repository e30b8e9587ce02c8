// SPDX-License-Identifier: Apache-2.0
// How two endpoints of this transport meet: over a socket each proves that it knows the job secret and says
// who it is (lib/auth), then they show each other their queue pairs, and each says when its own takes
// packets. Never waits: advance() goes as far as the bytes allow. Owned by a Meeting; driver thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/unique_fd.h"
#include "transports/verbs/link_table.h"

namespace rondel::verbs {

/// The authenticated payload of who dials: from whom, to whom.
struct LinkHello {
  std::uint64_t context = 0;
  std::uint16_t channel = 0;
  Rank to = kNoRank;
  Rank from = kNoRank;
  Rank size = 0;
};
Bytes encode(const LinkHello& hello);
Result<LinkHello> decode_link_hello(std::span<const std::byte> bytes);
/// refused when `hello` is not for this endpoint, or from nobody whom it could expect.
Status judge(const LinkHello& hello, const LinkHello& mine);

class Greeting {
 public:
  /// `mine`: context, channel and size of this endpoint, and its rank as `to`.
  /// `answered_by`: when the other host must at least have taken the connection.
  static Result<Greeting> dial(UniqueFd socket, const Secret& secret, const LinkHello& mine, Rank peer,
                               Deadline deadline, Deadline answered_by);
  static Result<Greeting> answer(UniqueFd socket, const Secret& secret, const LinkHello& mine,
                                 Deadline deadline);

  /// Goes on as far as it can. A failure is final.
  Status advance(LinkTable& links);
  /// The link is up, and has the socket.
  bool finished() const { return stage_ == Stage::finished; }
  bool dialled() const { return dialled_; }
  /// kNoRank: it has not said who it is.
  Rank peer() const { return peer_; }
  /// Of its link, from when it has one.
  std::optional<std::uint32_t> mark() const { return mark_; }
  int socket() const { return socket_.get(); }
  /// For poll(2): what it waits for.
  short events() const;

 private:
  enum class Stage : std::uint8_t { connecting, proving, showing, waiting, finished };

  Greeting(UniqueFd socket, Handshake handshake, bool dialled, Deadline deadline);
  Status step(LinkTable& links, bool& moved);
  Status prove();
  Status show(LinkTable& links);
  Status take_offer(LinkTable& links);
  Status send_some(bool& moved);
  Status receive_some(bool& moved);

  UniqueFd socket_;
  Handshake handshake_;
  std::shared_ptr<LinkHello> heard_ = std::make_shared<LinkHello>();  // filled by the handshake's judge
  bool dialled_;
  Deadline deadline_;
  Deadline answered_by_;
  Stage stage_;
  Rank peer_ = kNoRank;
  std::optional<std::uint32_t> mark_;
  std::size_t wanted_bytes_ = 0;
  Bytes incoming_;
  Bytes outgoing_;
};

}  // namespace rondel::verbs
