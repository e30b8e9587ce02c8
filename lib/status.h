// SPDX-License-Identifier: Apache-2.0
// Status and Result: how every function of ours reports failure. A success is a null pointer; a failure
// carries a code for programs and a Failure with the sentence for people. Values, any thread; never thrown,
// never logged here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "lib/types.h"

namespace rondel {

/// What went wrong, and what a caller can do about it.
enum class Code : std::uint8_t {
  ok,                ///< nothing went wrong
  invalid_argument,  ///< the call itself is wrong; fix the argument, nothing was started
  unsupported,       ///< this build or machine cannot do it; the text says what can
  unavailable,       ///< a resource that should be there is not (file, address, store key); retry may help
  out_of_resources,  ///< memory, descriptors or another limit ran out; the text names the limit
  timed_out,         ///< a deadline passed; the text says who was being waited for
  peer_lost,  ///< another rank died or its connection broke; the communicator is unusable, restart the job
  peer_left,  ///< another rank finished or destroyed its communicator while it was still needed
  mismatch,   ///< ranks called different operations or shapes; a bug in the calling program
  refused,    ///< authentication, version or settings differ; the text shows both sides
  aborted,    ///< somebody called abort
  io_error,   ///< the operating system failed a call; the text has its words
  internal,   ///< a bug in Rondel; please report it with the text
};
inline constexpr std::size_t kCodeCount = 13;

std::string_view name_of(Code code);

/// Everything known about a failure. Fields that do not apply keep their defaults.
struct Failure {
  std::string cause;             ///< one sentence: what happened, with the values that matter
  std::string hint;              ///< what the user can do; may be empty
  std::string operation;         ///< "allreduce #17 of 1024 float32 sum"
  std::string host;              ///< host of `peer`
  Rank rank = kNoRank;           ///< the rank that reports
  Rank peer = kNoRank;           ///< the guilty or missing rank
  std::uint64_t bytes_done = 0;  ///< payload bytes of the operation that had arrived on `rank`
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string cause, std::string hint = {});
  Status(Code code, Failure failure);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return body_ == nullptr; }
  Code code() const { return body_ == nullptr ? Code::ok : body_->code; }
  /// Details of a failure; an empty Failure when ok().
  const Failure& failure() const;
  /// The whole story on one line: operation, cause, peer and host, hint.
  std::string text() const;
  /// Puts what was being done in front of the cause: "context: cause". No-op on success.
  Status with(std::string_view context) &&;

 private:
  struct Body {
    Code code;
    Failure failure;
  };
  std::unique_ptr<Body> body_;
};

/// Whether errno says that descriptors or memory ran out, which may pass or be raised.
bool resources_ran_out(int error_number);

/// "what: the system's words for error_number". What ran out is Code::out_of_resources, whatever `code` says,
/// and without a hint of the caller's the limit is named.
Status system_failure(Code code, std::string_view what, int error_number, std::string hint = {});

/// A value, or the Status that explains why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}

  bool ok() const { return state_.index() == 0; }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }

  Code code() const { return ok() ? Code::ok : std::get<1>(state_).code(); }
  /// The failure, copied; success when ok().
  Status status() const& { return ok() ? Status() : std::get<1>(state_); }
  Status status() && { return ok() ? Status() : std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Status> state_;
};

namespace detail {
inline Status take_status(Status&& status) { return std::move(status); }
inline Status take_status(const Status& status) { return status; }
template <class T>
Status take_status(Result<T>&& result) {
  return std::move(result).status();
}
template <class T>
Status take_status(const Result<T>& result) {
  return result.status();
}
}  // namespace detail

}  // namespace rondel

/// Returns from the enclosing function when `expression` (a Status or Result) failed. A full statement, only.
#define RONDEL_TRY(expression)                                                                              \
  do {                                                                                                      \
    auto&& rondel_try_outcome = (expression);                                                               \
    if (!rondel_try_outcome.ok())                                                                           \
      return ::rondel::detail::take_status(std::forward<decltype(rondel_try_outcome)>(rondel_try_outcome)); \
  } while (false)
