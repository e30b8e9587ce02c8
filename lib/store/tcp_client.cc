// SPDX-License-Identifier: Apache-2.0
#include "lib/store/tcp_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
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
constexpr std::chrono::milliseconds kLastQuestion{500};  // after a deadline: which keys are missing?
/// A request that is sent in part ends the connection, so that it gets this time whatever its deadline.
constexpr std::chrono::milliseconds kSendPatience{500};

class TcpStore final : public Store {
 public:
  TcpStore(std::string address, store::Dialled dialled)
      : address_(std::move(address)),
        holder_(store::holder_of(dialled.peer_payload)),
        fd_(std::move(dialled.fd)) {}

  Status set(std::string_view key, std::span<const std::byte> value, Deadline deadline) override {
    RONDEL_TRY(store::check_entry(key, value));
    const auto reply = call(store::SetRequest{std::string(key), Bytes(value.begin(), value.end())}, deadline);
    return reply.status();
  }

  Result<Bytes> get(std::string_view key, Deadline deadline) override {
    RONDEL_TRY(store::check_key(key));
    const std::string name(key);
    auto reply = call_until_set(store::GetRequest{name}, std::span(&name, 1), deadline);
    if (!reply.ok()) return std::move(reply).status();
    return std::move(reply->value);
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t increment, Deadline deadline) override {
    RONDEL_TRY(store::check_key(key));
    const auto reply = call(store::AddRequest{std::string(key), increment}, deadline);
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

  Result<std::vector<std::string>> missing(std::span<const std::string> keys, Deadline deadline) override {
    for (const std::string& key : keys) RONDEL_TRY(store::check_key(key));
    std::vector<std::string> all;
    for (std::size_t at = 0; at < keys.size(); at += store::kKeysPerRequest) {
      auto some = ask_missing(keys.subspan(at, std::min(store::kKeysPerRequest, keys.size() - at)), deadline);
      RONDEL_TRY(some);
      all.insert(all.end(), some->begin(), some->end());
    }
    return all;
  }

 private:
  Result<std::vector<std::string>> ask_missing(std::span<const std::string> keys, Deadline deadline) {
    const auto answer = call(store::MissingRequest{{keys.begin(), keys.end()}}, deadline);
    RONDEL_TRY(answer);
    return store::decode_keys(answer->value);
  }

  /// When the deadline passes, asks which keys are missing: that tells a silent server from keys that are not
  /// set.
  template <class What>
  Result<Reply> call_until_set(const What& what, std::span<const std::string> keys, Deadline deadline) {
    const auto since = Clock::now();
    auto reply = call(what, deadline);
    if (reply.code() != Code::timed_out) return reply;
    const auto missing = ask_missing(keys, Deadline::in(kLastQuestion));
    RONDEL_TRY(missing);
    if (!missing->empty()) return store::not_set(*missing, since);
    return call(what, Deadline::in(kLastQuestion));  // set in the last moment: answered at once
  }

  Status failure(Code code, std::string cause, std::string hint) const {
    Failure failure;
    failure.cause = std::move(cause);
    failure.hint = std::move(hint);
    failure.peer = holder_.rank;
    failure.host = holder_.host;
    return Status(code, std::move(failure));
  }

  Status silent() const {
    const std::chrono::duration<double> waited = Clock::now() - unanswered_since_.value_or(Clock::now());
    return failure(Code::timed_out,
                   fmt::format("the job's store at {}, kept by {}, has not answered for {:.1f} s", address_,
                               holder_.text(), waited.count()),
                   "see whether that process is stopped or its host overloaded");
  }

  template <class What>
  Result<Reply> call(What what, Deadline deadline) {
    if (!lost_.ok()) return lost_;
    const Request request{++last_id_, std::move(what)};
    if (!unanswered_since_) unanswered_since_ = Clock::now();
    const auto send_by = std::max(deadline.when(), Clock::now() + kSendPatience);
    const Status sent = store::send_all(fd_.get(), framed(store::encode(request)), Deadline::at(send_by));
    if (!sent.ok()) return lose(sent);
    for (;;) {
      auto reply = receive(deadline);
      if (reply.code() == Code::timed_out) return silent();
      if (!reply.ok()) return lose(reply.status());
      unanswered_since_.reset();
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
    lost_ = failure(
        Code::unavailable,
        fmt::format("lost the store at {}, kept by {}: {}", address_, holder_.text(), why.failure().cause),
        "look at that process's output for the reason");
    return lost_;
  }

  const std::string address_;
  const store::Holder holder_;
  PrivateFd fd_;
  FrameReader reader_{store::kFrameLimit + 2048};
  std::uint32_t last_id_ = 0;
  std::optional<Clock::time_point> unanswered_since_;  // none: no request, or an answer to an earlier one
  Status lost_;
};

}  // namespace

Result<std::unique_ptr<Store>> connect_tcp_store(const std::string& address, const Secret& secret,
                                                 Deadline deadline, std::chrono::milliseconds silence) {
  auto dialled = store::dial(address, secret, store::kStoreRole, deadline, silence);
  if (!dialled.ok()) return std::move(dialled).status();
  return std::unique_ptr<Store>(std::make_unique<TcpStore>(address, std::move(*dialled)));
}

}  // namespace rondel
