// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace rondel::c {
namespace {

static_assert(static_cast<int>(Code::ok) == RONDEL_OK);
static_assert(static_cast<int>(Code::invalid_argument) == RONDEL_INVALID_ARGUMENT);
static_assert(static_cast<int>(Code::unsupported) == RONDEL_UNSUPPORTED);
static_assert(static_cast<int>(Code::unavailable) == RONDEL_UNAVAILABLE);
static_assert(static_cast<int>(Code::out_of_resources) == RONDEL_OUT_OF_RESOURCES);
static_assert(static_cast<int>(Code::timed_out) == RONDEL_TIMED_OUT);
static_assert(static_cast<int>(Code::peer_lost) == RONDEL_PEER_LOST);
static_assert(static_cast<int>(Code::peer_left) == RONDEL_PEER_LEFT);
static_assert(static_cast<int>(Code::mismatch) == RONDEL_MISMATCH);
static_assert(static_cast<int>(Code::refused) == RONDEL_REFUSED);
static_assert(static_cast<int>(Code::aborted) == RONDEL_ABORTED);
static_assert(static_cast<int>(Code::io_error) == RONDEL_IO_ERROR);
static_assert(static_cast<int>(Code::internal) == RONDEL_INTERNAL);
static_assert(kCodeCount == RONDEL_INTERNAL + 1);

thread_local Status last_failure;

template <std::size_t kCapacity>
void copy_text(const std::string& text, char (&target)[kCapacity]) {
  const std::size_t length = std::min(text.size(), kCapacity - 1);
  std::memcpy(target, text.data(), length);
  std::memset(target + length, 0, kCapacity - length);
}

}  // namespace

rondel_status_t conclude(Status status) noexcept {
  const Code code = status.code();
  if (code != Code::ok) last_failure = std::move(status);
  return static_cast<rondel_status_t>(code);
}

const Status& last_failure_of_thread() noexcept { return last_failure; }

void describe(const Status& status, rondel_error_t& error) noexcept {
  const Failure& failure = status.failure();
  error.code = static_cast<rondel_status_t>(status.code());
  error.rank = failure.rank;
  error.peer = failure.peer;
  error.bytes_done = failure.bytes_done;
  copy_text(failure.host, error.host);
  copy_text(failure.operation, error.operation);
  copy_text(failure.cause, error.cause);
  copy_text(failure.hint, error.hint);
  try {
    copy_text(status.text(), error.text);
  } catch (const std::bad_alloc&) {
    copy_text(failure.cause, error.text);
  }
}

Status check_error_struct(const rondel_error_t* error) {
  if (error == nullptr) return wrong("error is NULL");
  if (error->struct_size != sizeof(rondel_error_t))
    return wrong(fmt::format("rondel_error_t says that it has {} bytes, this library's has {}",
                             error->struct_size, sizeof(rondel_error_t)),
                 "begin with RONDEL_ERROR_INIT");
  return {};
}

Status with_hint(Status failed, const std::string& hint) {
  if (failed.ok() || hint.empty()) return failed;
  Failure failure = failed.failure();
  failure.hint += (failure.hint.empty() ? "" : "; ") + hint;
  return Status(failed.code(), std::move(failure));
}

}  // namespace rondel::c
