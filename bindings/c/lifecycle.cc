// SPDX-License-Identifier: Apache-2.0
// The start and end of communicators: rondel_init and its kin, split, finalize, abort.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>

#include "bindings/c/comm.h"
#include "bindings/c/options.h"
#include "bindings/c/start.h"
#include "lib/deadline.h"

namespace rondel::c {
namespace {

static_assert(sizeof(rondel_unique_id_t) == kMeetingPointBytes);

/// Hands what was started to the caller.
Status deliver(Result<Started> started, const Config& config, rondel_comm_t* comm) {
  RONDEL_TRY(started);
  auto handle = make_handle(std::move(started->hold), std::move(started->communicator));
  if (config.local_rank && config.local_size && config.size == handle->communicator->size()) {
    handle->local_rank = *config.local_rank;
    handle->local_size = *config.local_size;
  }
  *comm = handle.release();
  return {};
}

/// The frame of rondel_init and its kin: `start` gets the settings and returns what it started.
template <class Start>
rondel_status_t init(const rondel_options_t* options, rondel_comm_t* comm, Start&& start) noexcept {
  return answer([options, comm, &start]() -> Status {
    if (comm == nullptr) return wrong("comm is NULL", "pass the address of a rondel_comm_t");
    *comm = nullptr;
    const auto settings = settings_from(options);
    RONDEL_TRY(settings);
    return deliver(start(*settings), settings->config, comm);
  });
}

Status callback_failure(const char* callback, const std::string& key, rondel_status_t code) {
  const bool known = code > RONDEL_OK && static_cast<std::size_t>(code) < kCodeCount;
  return Status(known ? static_cast<Code>(code) : Code::internal,
                fmt::format("the store's {}(\"{}\") returned {}", callback, key, rondel_status_string(code)));
}

Result<Bytes> get_from(const rondel_store_t& store, const std::string& key, Deadline deadline) {
  Bytes value(kMeetingPointBytes);
  std::size_t bytes = 0;
  const double seconds = std::chrono::duration<double>(deadline.left()).count();
  const rondel_status_t code =
      store.get(store.user, key.c_str(), value.data(), value.size(), &bytes, seconds);
  if (code != RONDEL_OK) return callback_failure("get", key, code);
  if (bytes != value.size())
    return wrong(
        fmt::format("the store's get(\"{}\") gave {} bytes, rank 0 had set {}", key, bytes, value.size()),
        "a store must return values unchanged");
  return value;
}

Rendezvous rendezvous_of(const rondel_store_t& store) {
  return {
      .set = [store](const std::string& key, std::span<const std::byte> value) -> Status {
        const rondel_status_t code = store.set(store.user, key.c_str(), value.data(), value.size());
        return code == RONDEL_OK ? Status() : callback_failure("set", key, code);
      },
      .get = [store](const std::string& key, Deadline deadline) { return get_from(store, key, deadline); }};
}

Status check_store(const rondel_store_t* store) {
  if (store == nullptr) return wrong("store is NULL");
  if (store->struct_size != sizeof(rondel_store_t))
    return wrong(fmt::format("rondel_store_t says that it has {} bytes, this library's has {}",
                             store->struct_size, sizeof(rondel_store_t)),
                 "begin with RONDEL_STORE_INIT");
  if (store->set == nullptr || store->get == nullptr) return wrong("the store has no set or no get");
  return {};
}

Status adopt(rondel_comm& parent, Result<std::unique_ptr<Communicator>> made, rondel_comm_t* result) {
  RONDEL_TRY(made);
  if (*made != nullptr) *result = make_handle(parent.hold, std::move(made).value()).release();
  return {};
}

/// Requests outlive their communicator, because their handles are the caller's.
void orphan_requests(rondel_comm& comm) {
  for (rondel_request* request : comm.open_requests) request->comm = nullptr;
  comm.open_requests.clear();
}

void free_handle(rondel_comm* comm) noexcept {
  orphan_requests(*comm);
  comm->magic = 0;
  delete comm;
}

/// Frees the handle whatever `last_words` returns, unless another thread is inside.
template <class LastWords>
rondel_status_t end(rondel_comm_t comm, LastWords&& last_words) noexcept {
  if (comm == nullptr) return RONDEL_OK;
  return answer([comm, &last_words]() -> Status {
    RONDEL_TRY(check_handle(comm));
    if (!comm->enter()) return overlapping_call();
    Status status = without_exceptions([comm, &last_words] { return last_words(*comm); });
    if (!comm->communicator->failure().ok()) comm->hold->failed();
    free_handle(comm);
    return status;
  });
}

}  // namespace
}  // namespace rondel::c

using rondel::Status;

rondel_status_t rondel_init(const rondel_options_t* options, rondel_comm_t* comm) {
  return rondel::c::init(options, comm, rondel::c::start_from_environment);
}

rondel_status_t rondel_get_unique_id(const rondel_options_t* options, rondel_unique_id_t* id) {
  return rondel::c::answer([options, id]() -> Status {
    if (id == nullptr) return rondel::c::wrong("id is NULL");
    const auto settings = rondel::c::settings_from(options);
    RONDEL_TRY(settings);
    const auto bytes = rondel::c::make_unique_id(*settings);
    RONDEL_TRY(bytes);
    std::copy(bytes->begin(), bytes->end(), reinterpret_cast<std::byte*>(id->bytes));
    return {};
  });
}

rondel_status_t rondel_init_unique_id(const rondel_unique_id_t* id, int32_t rank, int32_t size,
                                      const rondel_options_t* options, rondel_comm_t* comm) {
  return rondel::c::init(
      options, comm,
      [id, rank, size](const rondel::c::Settings& settings) -> rondel::Result<rondel::c::Started> {
        if (id == nullptr) return rondel::c::wrong("id is NULL");
        return rondel::c::start_from_unique_id(settings, std::as_bytes(std::span(id->bytes)), rank, size);
      });
}

rondel_status_t rondel_init_store(const rondel_store_t* store, int32_t rank, int32_t size,
                                  const rondel_options_t* options, rondel_comm_t* comm) {
  return rondel::c::init(
      options, comm,
      [store, rank, size](const rondel::c::Settings& settings) -> rondel::Result<rondel::c::Started> {
        RONDEL_TRY(rondel::c::check_store(store));
        return rondel::c::start_from_store(settings, rondel::c::rendezvous_of(*store), rank, size);
      });
}

rondel_status_t rondel_finalize(rondel_comm_t comm) {
  return rondel::c::end(comm, [](rondel_comm& ending) {
    return ending.communicator->run(
        {.kind = rondel::CollectiveKind::barrier, .purpose = rondel::Purpose::finalize});
  });
}

rondel_status_t rondel_destroy(rondel_comm_t comm) {
  return rondel::c::end(comm, [](rondel_comm&) { return Status(); });
}

rondel_status_t rondel_abort(rondel_comm_t comm, const char* why) {
  return rondel::c::answer([comm, why]() -> Status {
    RONDEL_TRY(rondel::c::check_handle(comm));
    comm->communicator->abort(why == nullptr ? "rondel_abort was called" : why);
    return {};
  });
}

rondel_status_t rondel_split(rondel_comm_t comm, int32_t colour, int32_t key, rondel_comm_t* part) {
  return rondel::c::answer_on(comm, [colour, key, part](rondel_comm& parent) -> Status {
    if (part == nullptr) return rondel::c::wrong("part is NULL");
    *part = nullptr;
    return rondel::c::adopt(parent, parent.communicator->split(colour, key), part);
  });
}

rondel_status_t rondel_duplicate(rondel_comm_t comm, rondel_comm_t* copy) {
  return rondel::c::answer_on(comm, [copy](rondel_comm& parent) -> Status {
    if (copy == nullptr) return rondel::c::wrong("copy is NULL");
    *copy = nullptr;
    return rondel::c::adopt(parent, parent.communicator->duplicate(), copy);
  });
}
