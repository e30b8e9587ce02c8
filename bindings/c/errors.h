// SPDX-License-Identifier: Apache-2.0
// Where failures cross into C: Status becomes a code, its text is kept for rondel_last_error, and no
// exception passes. Any thread; the last failure is kept per thread.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "bindings/c/include/rondel.h"
#include "lib/status.h"

namespace rondel::c {

/// Keeps `status` as this thread's last failure when it is one, and gives its code.
rondel_status_t conclude(Status status) noexcept;
/// This thread's last failure; ok() when there was none.
const Status& last_failure_of_thread() noexcept;

/// The same failure for callers in C. `error` must have passed check_error_struct.
void describe(const Status& status, rondel_error_t& error) noexcept;
Status check_error_struct(const rondel_error_t* error);

/// Runs `body`, which returns a Status, and turns what it throws into one: memory that ran out, or a bug.
template <class Body>
Status without_exceptions(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_resources, "memory ran out");
  } catch (const std::exception& thrown) {
    return Status(Code::internal, thrown.what());
  } catch (...) {
    return Status(Code::internal, "an unknown exception");
  }
}

/// The whole of a function that needs no communicator.
template <class Body>
rondel_status_t answer(Body&& body) noexcept {
  return conclude(without_exceptions(std::forward<Body>(body)));
}

inline Status wrong(std::string cause, std::string hint = {}) {
  return Status(Code::invalid_argument, std::move(cause), std::move(hint));
}

/// `failed` with what else the user can do, after the hint that it has.
Status with_hint(Status failed, const std::string& hint);

}  // namespace rondel::c
