// SPDX-License-Identifier: Apache-2.0
#include "bench/communicator.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace rondel::bench {

Status status_of(rondel_status_t code, rondel_comm_t comm) {
  if (code == RONDEL_OK) return {};
  rondel_error_t error = RONDEL_ERROR_INIT;
  rondel_last_error(comm, &error);
  const char* const text = error.code != RONDEL_OK ? error.text : rondel_status_string(code);
  return Status(static_cast<Code>(code), text);  // the C codes are lib's, number by number
}

Result<std::unique_ptr<Communicator>> Communicator::from_environment() {
  rondel_comm_t comm = nullptr;
  RONDEL_TRY(status_of(rondel_init(nullptr, &comm), nullptr));
  return std::unique_ptr<Communicator>(new Communicator(comm));
}

Communicator::~Communicator() { rondel_destroy(comm_); }

Status Communicator::finalize() { return status_of(rondel_finalize(std::exchange(comm_, nullptr)), nullptr); }

Result<Effort> Communicator::effort() const {
  std::uint64_t sent_bytes = 0;
  RONDEL_TRY(status_of(rondel_byte_counts(comm_, &sent_bytes, nullptr), comm_));
  std::size_t count = 0;
  RONDEL_TRY(status_of(rondel_counters(comm_, nullptr, 0, &count), comm_));
  std::vector<rondel_counter_t> counters(count);
  RONDEL_TRY(status_of(rondel_counters(comm_, counters.data(), counters.size(), &count), comm_));
  Effort effort{.sent_bytes = static_cast<double>(sent_bytes), .counts = {}};
  for (const rondel_counter_t& counter : counters)
    effort.counts.emplace_back(counter.name, static_cast<double>(counter.value));
  return effort;
}

Status Communicator::largest(double* values, std::size_t count) {
  return status_of(rondel_allreduce(comm_, values, values, count, RONDEL_FLOAT64, RONDEL_MAX), comm_);
}

Status Communicator::sum(std::int64_t& value) {
  return status_of(rondel_allreduce(comm_, &value, &value, 1, RONDEL_INT64, RONDEL_SUM), comm_);
}

Result<Buffer> Buffer::allocate(std::size_t bytes, bool plain) {
  void* memory = nullptr;
  if (!plain) {
    RONDEL_TRY(status_of(rondel_alloc(bytes, &memory), nullptr));
  } else {
    memory = std::malloc(bytes);
    if (memory == nullptr)
      return Status(Code::out_of_resources, fmt::format("malloc of {} bytes failed", bytes),
                    "use a smaller -e");
    std::memset(memory, 0, bytes);
  }
  return Buffer(static_cast<std::byte*>(memory), bytes, plain);
}

void Buffer::Free::operator()(std::byte* memory) const {
  if (plain)
    std::free(memory);
  else
    rondel_free(memory);
}

}  // namespace rondel::bench
