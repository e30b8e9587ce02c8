// SPDX-License-Identifier: Apache-2.0
#include "lib/store/tcp_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "lib/frame.h"
#include "lib/private_fd.h"
#include "lib/store/dial.h"
#include "lib/store/entries.h"
#include "lib/store/protocol.h"
#include "lib/store/socket.h"

namespace rondel {
namespace {

using store::Reply;
using store::Request;
using Clock = Deadline::Clock;
constexpr std::chrono::seconds kAnswerPatience{30};      // for what the server answers at once
constexpr std::chrono::milliseconds kLastQuestion{500};  // after a deadline: which keys are missing?

class TcpStore final : public Store {
 public:
  TcpStore(std::string address, UniqueFd fd) : address_(std::move(address)), fd_(std::move(fd)) {}

  Status set(std::string_view key, std::span<const std::byte> value) override {
    RONDEL_TRY(store::check_entry(key, value));
    const auto reply =
        call(store::SetRequest{std::string(key), Bytes(value.begin(), value.end())}, patience());
    return reply.status();
  }

  Result<Bytes> get(std::string_view key, Deadline deadline) override {
    RONDEL_TRY(store::check_key(key));
    const std::string name(key);
    auto reply = call_until_set(store::GetRequest{name}, std::span(&name, 1), deadline);
    if (!reply.ok()) return std::move(reply).status();
    return std::move(reply->value);
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t increment) override {
    RONDEL_TRY(store::check_key(key));
    const auto reply = call(store::AddRequest{std::string(key), increment}, patience());
    if (!reply.ok()) return reply.status();
    return store::decode_sum(reply->value);
  }

  Status wait(std::span<const std::string> keys, Deadline deadline) override {
    for (const std::string& key : keys) RONDEL_TRY(store::check_key(key));
    for (std::size_t at = 0; at < keys.size(); at += store::kKeysPerRequest) {
      const auto some = keys.subspan(at, std::min(store::kKeysPerRequest, keys.size() - at));
      RONDEL_TRY(call_until_set(store::WaitRequest{{some.begin(), some.end()}}, some, deadline));
    }
    return {};
  }

 private:
  static Deadline patience() { return Deadline::in(kAnswerPatience); }

  /// When the deadline passes, asks which keys are missing: that tells a silent server from keys that are not
  /// set.
  template <class What>
  Result<Reply> call_until_set(const What& what, std::span<const std::string> keys, Deadline deadline) {
    const auto since = Clock::now();
    auto reply = call(what, deadline);
    if (reply.code() != Code::timed_out) return reply;
    const auto answer = call(store::MissingRequest{{keys.begin(), keys.end()}}, Deadline::in(kLastQuestion));
    if (answer.code() == Code::timed_out) return Status(Code::timed_out, silent(since));
    if (!answer.ok()) return answer.status();
    const auto missing = store::decode_keys(answer->value);
    if (!missing.ok()) return missing.status();
    if (!missing->empty()) return store::not_set(*missing, since);
    return call(what, patience());  // set in the last moment: answered at once
  }

  std::string silent(Clock::time_point since) const {
    const std::chrono::duration<double> waited = Clock::now() - since;
    return fmt::format("the store at {} has not answered for {:.1f} s", address_, waited.count());
  }

  template <class What>
  Result<Reply> call(What what, Deadline deadline) {
    if (!lost_.ok()) return lost_;
    const auto since = Clock::now();
    const Request request{++last_id_, std::move(what)};
    const Status sent = store::send_all(fd_.get(), framed(store::encode(request)), patience());
    if (!sent.ok()) return lose(sent);
    for (;;) {
      auto reply = receive(deadline);
      if (reply.code() == Code::timed_out) return Status(Code::timed_out, silent(since));
      if (!reply.ok()) return lose(reply.status());
      if (reply->id != request.id) continue;  // to a request that was given up
      if (reply->code != Code::ok) return Status(reply->code, reply->cause);
      return reply;
    }
  }

  Result<Reply> receive(Deadline deadline) {
    for (;;) {
      auto body = reader_.next();
      if (!body.ok()) return std::move(body).status();
      if (body->has_value()) return store::decode_reply(**body);
      std::array<std::byte, 16 * 1024> piece;
      const auto got = store::receive_some(fd_.get(), piece, deadline);
      if (!got.ok()) return got.status();
      reader_.add(std::span(piece).first(*got));
    }
  }

  Status lose(const Status& why) {
    fd_.reset();
    lost_ = Status(Code::unavailable, fmt::format("lost the store at {}: {}", address_, why.failure().cause),
                   "it lives in the launcher or, without one, in rank 0: look there for the reason");
    return lost_;
  }

  const std::string address_;
  PrivateFd fd_;
  FrameReader reader_{store::kFrameLimit + 2048};
  std::uint32_t last_id_ = 0;
  Status lost_;
};

}  // namespace

Result<std::unique_ptr<Store>> connect_tcp_store(const std::string& address, const Secret& secret,
                                                 Deadline deadline) {
  auto dialled = store::dial(address, secret, store::kStoreRole, deadline);
  if (!dialled.ok()) return std::move(dialled).status();
  return std::unique_ptr<Store>(std::make_unique<TcpStore>(address, std::move(dialled->fd)));
}

}  // namespace rondel
