// SPDX-License-Identifier: Apache-2.0
// What can be asked: versions, what this build can do, ranks and hosts, byte counts, errors.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "bindings/c/comm.h"
#include "lib/auth.h"
#include "lib/config.h"
#include "lib/reduce.h"
#include "transports/registry.h"

namespace rondel::c {
namespace {

#define RONDEL_TEXT_OF(value) #value
#define RONDEL_VERSION_OF(major, minor, patch) \
  RONDEL_TEXT_OF(major) "." RONDEL_TEXT_OF(minor) "." RONDEL_TEXT_OF(patch)

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

std::string build_info() {
  const auto config = Config::from_environment();
  std::string text =
      fmt::format("{{\"version\": \"{}\", \"protocol\": {}, \"reduce_kernels\": {}, \"transports\": [",
                  rondel_version_string(), kProtocolVersion, json_text(reduce_instruction_set()));
  std::string_view separator;
  for (const BackendReport& report : report_backends(config.ok() ? *config : Config{})) {
    fmt::format_to(std::back_inserter(text),
                   "{}{{\"name\": {}, \"built\": {}, \"usable\": {}, \"why_not\": {}}}", separator,
                   json_text(report.name), report.built, report.probe.usable,
                   json_text(report.probe.why_not));
    separator = ", ";
  }
  return text + "]}";
}

bool is_handle(const rondel_comm* comm) { return comm != nullptr && comm->magic == rondel_comm::kMagic; }

}  // namespace
}  // namespace rondel::c

using rondel::Status;
using rondel::c::is_handle;

int rondel_version(void) { return RONDEL_VERSION; }

const char* rondel_version_string(void) {
  return RONDEL_VERSION_OF(RONDEL_VERSION_MAJOR, RONDEL_VERSION_MINOR, RONDEL_VERSION_PATCH);
}

const char* rondel_build_info(void) {
  static thread_local std::string text;
  const rondel_status_t status = rondel::c::answer([] {
    text = rondel::c::build_info();
    return Status();
  });
  return status == RONDEL_OK ? text.c_str() : nullptr;
}

const char* rondel_status_string(rondel_status_t code) {
  const int number = code;  // any number, if the caller is wrong
  const bool known = number >= 0 && number <= RONDEL_INTERNAL;
  return rondel::name_of(static_cast<rondel::Code>(known ? number : UINT8_MAX)).data();
}

int32_t rondel_rank(rondel_comm_t comm) { return is_handle(comm) ? comm->communicator->rank() : -1; }

int32_t rondel_size(rondel_comm_t comm) { return is_handle(comm) ? comm->communicator->size() : -1; }

int32_t rondel_local_rank(rondel_comm_t comm) { return is_handle(comm) ? comm->local_rank : -1; }

int32_t rondel_local_size(rondel_comm_t comm) { return is_handle(comm) ? comm->local_size : -1; }

const char* rondel_transport(rondel_comm_t comm) { return is_handle(comm) ? comm->transport.c_str() : ""; }

const char* rondel_host(rondel_comm_t comm, int32_t rank) {
  const bool known = is_handle(comm) && rank >= 0 && rank < comm->communicator->size();
  return known ? comm->communicator->host_of(rank).c_str() : "";
}

rondel_status_t rondel_byte_counts(rondel_comm_t comm, uint64_t* sent, uint64_t* received) {
  return rondel::c::answer_on(comm, [sent, received](rondel_comm& on) {
    if (sent != nullptr) *sent = on.communicator->bytes_sent();
    if (received != nullptr) *received = on.communicator->bytes_received();
    return Status();
  });
}

rondel_status_t rondel_counters(rondel_comm_t comm, rondel_counter_t* counters, size_t room, size_t* count) {
  return rondel::c::answer_on(comm, [counters, room, count](rondel_comm& on) -> Status {
    if (count == nullptr || (counters == nullptr && room > 0))
      return Status(rondel::Code::invalid_argument, "there is no place for the counters",
                    "pass a count, and an array where room is not 0");
    const auto all = on.communicator->counters();
    *count = all.size();
    if (counters == nullptr) return {};
    for (std::size_t i = 0; i < std::min(room, all.size()); ++i) counters[i] = {all[i].name, all[i].value};
    return {};
  });
}

rondel_status_t rondel_last_error(rondel_comm_t comm, rondel_error_t* error) {
  return rondel::c::answer([comm, error]() -> Status {
    RONDEL_TRY(rondel::c::check_error_struct(error));
    if (comm != nullptr) RONDEL_TRY(rondel::c::check_handle(comm));
    rondel::c::describe(comm == nullptr ? rondel::c::last_failure_of_thread() : comm->last_failure, *error);
    return {};
  });
}

rondel_status_t rondel_failure(rondel_comm_t comm, rondel_error_t* error) {
  return rondel::c::answer([comm, error]() -> Status {
    RONDEL_TRY(rondel::c::check_error_struct(error));
    RONDEL_TRY(rondel::c::check_handle(comm));
    rondel::c::describe(comm->communicator->failure(), *error);
    return {};
  });
}
