// SPDX-License-Identifier: Apache-2.0
// One rank without a launcher: every operation, and everything that does not need a peer.
#include <rondel.h>
#include <sys/syscall.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/bindings/job_world.h"
#include "tests/support/forbidden_call.h"

namespace {

using rondel::test::last_error;

class Alone {
 public:
  Alone() { REQUIRE(rondel_init(nullptr, &comm) == RONDEL_OK); }
  ~Alone() { rondel_destroy(comm); }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  rondel_comm_t comm = nullptr;
};

std::string cause() { return last_error().cause; }

}  // namespace

TEST_CASE("one rank without a launcher: facts") {
  Alone alone;
  CHECK(rondel_rank(alone.comm) == 0);
  CHECK(rondel_size(alone.comm) == 1);
  CHECK(rondel_local_rank(alone.comm) == 0);
  CHECK(rondel_local_size(alone.comm) == 1);
  CHECK(std::string(rondel_host(alone.comm, 0)) != "");
  CHECK(std::string(rondel_host(alone.comm, 1)) == "");
  std::uint64_t sent = 1;
  std::uint64_t received = 1;
  CHECK(rondel_byte_counts(alone.comm, &sent, &received) == RONDEL_OK);
  CHECK((sent == 0 && received == 0));
  std::size_t counters = 1;
  CHECK(rondel_counters(alone.comm, nullptr, 0, &counters) == RONDEL_OK);
  CHECK(counters == 0);
  CHECK(rondel_counters(alone.comm, nullptr, 1, &counters) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_counters(alone.comm, nullptr, 0, nullptr) == RONDEL_INVALID_ARGUMENT);
}

TEST_CASE("one rank without a launcher: every collective copies") {
  Alone alone;
  const std::array<std::int32_t, 3> in{7, -8, 9};
  const std::array<std::uint64_t, 1> counts{3};
  std::array<std::int32_t, 3> out{};
  const auto copied = [&in, &out](rondel_status_t status) {
    const bool equal = status == RONDEL_OK && in == out;
    out = {};
    return equal;
  };
  rondel_comm_t comm = alone.comm;
  CHECK(copied(rondel_allreduce(comm, in.data(), out.data(), 3, RONDEL_INT32, RONDEL_SUM)));
  CHECK(copied(rondel_allreduce(comm, in.data(), out.data(), 3, RONDEL_INT32, RONDEL_AVERAGE)));
  CHECK(copied(rondel_reduce_scatter(comm, in.data(), out.data(), 3, RONDEL_INT32, RONDEL_MAX)));
  CHECK(copied(rondel_reduce_scatterv(comm, in.data(), out.data(), counts.data(), RONDEL_INT32, RONDEL_MIN)));
  CHECK(copied(rondel_allgather(comm, in.data(), out.data(), 3, RONDEL_INT32)));
  CHECK(copied(rondel_allgatherv(comm, in.data(), out.data(), counts.data(), RONDEL_INT32)));
  CHECK(copied(rondel_broadcast(comm, in.data(), out.data(), 3, RONDEL_INT32, 0)));
  CHECK(copied(rondel_reduce(comm, in.data(), out.data(), 3, RONDEL_INT32, RONDEL_PRODUCT, 0)));
  CHECK(copied(rondel_gather(comm, in.data(), out.data(), 3, RONDEL_INT32, 0)));
  CHECK(copied(rondel_gatherv(comm, in.data(), out.data(), counts.data(), RONDEL_INT32, 0)));
  CHECK(copied(rondel_scatter(comm, in.data(), out.data(), 3, RONDEL_INT32, 0)));
  CHECK(copied(rondel_scatterv(comm, in.data(), out.data(), counts.data(), RONDEL_INT32, 0)));
  CHECK(copied(rondel_alltoall(comm, in.data(), out.data(), 3, RONDEL_INT32)));
  CHECK(copied(rondel_alltoallv(comm, in.data(), counts.data(), out.data(), counts.data(), RONDEL_INT32)));
  CHECK(rondel_barrier(comm) == RONDEL_OK);
  CHECK(rondel_allreduce(comm, nullptr, nullptr, 0, RONDEL_FLOAT64, RONDEL_SUM) == RONDEL_OK);
}

TEST_CASE("one rank without a launcher: a started operation ends") {
  Alone alone;
  const std::array<float, 2> in{1.5F, 2.5F};
  std::array<float, 2> out{};
  rondel_request_t request = nullptr;
  REQUIRE(rondel_iallreduce(alone.comm, in.data(), out.data(), 2, RONDEL_FLOAT32, RONDEL_SUM, &request) ==
          RONDEL_OK);
  REQUIRE(request != nullptr);
  CHECK(rondel_wait(&request, 5) == RONDEL_OK);
  CHECK(request == nullptr);
  CHECK(out == in);
  CHECK(rondel_wait(&request, 5) == RONDEL_OK);
  int done = 0;
  CHECK(rondel_test(&request, &done) == RONDEL_OK);
  CHECK(done == 1);
}

TEST_CASE("one rank on every transport") {
  for (const char* transport : {RONDEL_TEST_TRANSPORT, "loopback"}) {
    rondel_options_t options = RONDEL_OPTIONS_INIT;
    options.transport = transport;
    rondel_comm_t comm = nullptr;
    INFO(transport);
    REQUIRE(rondel_init(&options, &comm) == RONDEL_OK);
    float value = 3;
    CHECK(rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_AVERAGE) == RONDEL_OK);
    CHECK(value == 3.0F);
    CHECK(rondel_finalize(comm) == RONDEL_OK);
  }
}

TEST_CASE("what no operation can do starts nothing and harms nothing") {
  Alone alone;
  rondel_comm_t comm = alone.comm;
  float value = 1;
  CHECK(rondel_allreduce(nullptr, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM) == RONDEL_INVALID_ARGUMENT);
  CHECK_THAT(cause(), Catch::Contains("NULL"));
  CHECK(rondel_allreduce(comm, nullptr, &value, 1, RONDEL_FLOAT32, RONDEL_SUM) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_allreduce(comm, &value, nullptr, 1, RONDEL_FLOAT32, RONDEL_SUM) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_BIT_AND) == RONDEL_UNSUPPORTED);
  CHECK(rondel_allreduce(comm, &value, &value, 1, RONDEL_BOOL, RONDEL_AVERAGE) == RONDEL_UNSUPPORTED);
  CHECK(rondel_broadcast(comm, &value, &value, 1, RONDEL_FLOAT32, 1) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_broadcast(comm, &value, &value, 1, RONDEL_FLOAT32, -1) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_allgatherv(comm, &value, &value, nullptr, RONDEL_FLOAT32) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_send(comm, &value, 1, RONDEL_FLOAT32, 0) == RONDEL_INVALID_ARGUMENT);
  // 2^62 elements of 8 bytes are no number of bytes
  CHECK(rondel_allreduce(comm, &value, &value, std::uint64_t{1} << 62, RONDEL_FLOAT64, RONDEL_SUM) ==
        RONDEL_INVALID_ARGUMENT);
  rondel_request_t request = reinterpret_cast<rondel_request_t>(&value);
  CHECK(rondel_ibroadcast(comm, &value, &value, 1, RONDEL_FLOAT32, 9, &request) == RONDEL_INVALID_ARGUMENT);
  CHECK(request == nullptr);
  CHECK(rondel_ibarrier(comm, nullptr) == RONDEL_INVALID_ARGUMENT);

  rondel_error_t error = RONDEL_ERROR_INIT;
  CHECK(rondel_failure(comm, &error) == RONDEL_OK);
  CHECK(error.code == RONDEL_OK);
  CHECK(rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM) == RONDEL_OK);
  CHECK(rondel_last_error(comm, &error) == RONDEL_OK);
  CHECK(error.code == RONDEL_INVALID_ARGUMENT);
}

TEST_CASE("structs of another size are refused, unless what is unknown is zero") {
  struct Newer {
    rondel_options_t known;
    std::uint64_t unknown;
  } newer = {RONDEL_OPTIONS_INIT, 0};
  newer.known.struct_size = sizeof newer;
  rondel_comm_t comm = nullptr;
  CHECK(rondel_init(&newer.known, &comm) == RONDEL_OK);
  CHECK(rondel_destroy(comm) == RONDEL_OK);
  newer.unknown = 1;
  CHECK(rondel_init(&newer.known, &comm) == RONDEL_UNSUPPORTED);
  CHECK(comm == nullptr);
  newer.known.struct_size = 0;
  CHECK(rondel_init(&newer.known, &comm) == RONDEL_INVALID_ARGUMENT);
  CHECK_THAT(std::string(last_error().hint), Catch::Contains("RONDEL_OPTIONS_INIT"));
  rondel_error_t error = RONDEL_ERROR_INIT;
  error.struct_size = 8;
  CHECK(rondel_last_error(nullptr, &error) == RONDEL_INVALID_ARGUMENT);
  rondel_options_t options = RONDEL_OPTIONS_INIT;
  options.timeout_seconds = -1;
  CHECK(rondel_init(&options, &comm) == RONDEL_INVALID_ARGUMENT);
  CHECK_THAT(cause(), Catch::Contains("timeout_seconds"));
}

TEST_CASE("the last error belongs to its thread") {
  CHECK(rondel_init(nullptr, nullptr) == RONDEL_INVALID_ARGUMENT);
  CHECK(last_error().code == RONDEL_INVALID_ARGUMENT);
  rondel_status_t other = RONDEL_INTERNAL;
  std::thread([&other] { other = last_error().code; }).join();
  CHECK(other == RONDEL_OK);
}

TEST_CASE("versions, status texts and build information") {
  CHECK(rondel_version() == RONDEL_VERSION);
  CHECK(std::string(rondel_version_string()) == RONDEL_PROJECT_VERSION);
  CHECK(std::string(rondel_status_string(RONDEL_OK)) == "ok");
  CHECK(std::string(rondel_status_string(RONDEL_PEER_LOST)) == "peer lost");
  CHECK(std::string(rondel_status_string(RONDEL_INTERNAL)) == "internal error");
  const std::string info = rondel_build_info();
  const std::string built = std::string_view(RONDEL_TEST_TRANSPORT) == "tcp" ? "true" : "false";
  CHECK_THAT(info, Catch::Contains("\"name\": \"tcp\", \"built\": " + built));
  CHECK_THAT(info, Catch::Contains("\"version\": \"" RONDEL_PROJECT_VERSION "\""));
}

TEST_CASE("memory is zero, aligned, and given back once") {
  void* memory = nullptr;
  REQUIRE(rondel_alloc(100'000, &memory) == RONDEL_OK);
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
  const std::vector<unsigned char> zeros(100'000, 0);
  CHECK(std::memcmp(memory, zeros.data(), zeros.size()) == 0);
  std::memset(memory, 0xff, zeros.size());
  CHECK(rondel_free(static_cast<char*>(memory) + 1) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_free(memory) == RONDEL_OK);
  CHECK(rondel_free(memory) == RONDEL_INVALID_ARGUMENT);
  void* again = nullptr;
  REQUIRE(rondel_alloc(100'000, &again) == RONDEL_OK);
  CHECK(std::memcmp(again, zeros.data(), zeros.size()) == 0);
  CHECK(rondel_free(again) == RONDEL_OK);
  void* none = &memory;
  CHECK(rondel_alloc(0, &none) == RONDEL_OK);
  CHECK(none == nullptr);
  CHECK(rondel_free(nullptr) == RONDEL_OK);
  CHECK(rondel_alloc(1, nullptr) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_alloc(std::size_t{1} << 50, &none) == RONDEL_OUT_OF_RESOURCES);
  CHECK(none == nullptr);
}

TEST_CASE("where no memory can be shared rondel_alloc gives ordinary memory, with the same promises") {
  rondel::test::ProcessWorld world(1, [](rondel::test::RankTest& test, const rondel::test::Voice&) {
    test.require(rondel::test::forbid_call(SYS_memfd_create), "a filter on system calls");
    for (int i = 0; i < 2; ++i) {
      void* memory = nullptr;
      test.require(rondel_alloc(100'001, &memory) == RONDEL_OK, last_error().text);
      test.expect(reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0, "aligned");
      const std::vector<unsigned char> zeros(100'001, 0);
      test.expect(std::memcmp(memory, zeros.data(), zeros.size()) == 0, "zero");
      std::memset(memory, 0xff, zeros.size());
      test.expect(rondel_free(static_cast<char*>(memory) + 1) == RONDEL_INVALID_ARGUMENT, "not its begin");
      test.expect(rondel_free(memory) == RONDEL_OK, "freed");
      test.expect(rondel_free(memory) == RONDEL_INVALID_ARGUMENT, "once");
    }
  });
  const auto ending = world.wait(0, rondel::Deadline::in(std::chrono::seconds(20)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("memory that is registered is known by its registration, until it is forgotten") {
  Alone alone;
  Alone other;
  std::vector<float> memory(100);
  rondel_registration_t registration = nullptr;
  CHECK(rondel_register(alone.comm, nullptr, 4, &registration) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_register(alone.comm, memory.data(), 0, &registration) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_register(alone.comm, memory.data(), 400, nullptr) == RONDEL_INVALID_ARGUMENT);
  REQUIRE(rondel_register(alone.comm, memory.data(), 400, &registration) == RONDEL_OK);
  CHECK(rondel_allreduce(alone.comm, memory.data() + 1, memory.data() + 50, 40, RONDEL_FLOAT32, RONDEL_SUM) ==
        RONDEL_OK);
  CHECK(rondel_deregister(other.comm, registration) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_deregister(alone.comm, registration) == RONDEL_OK);
  CHECK(rondel_deregister(alone.comm, registration) == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_deregister(alone.comm, nullptr) == RONDEL_OK);
}

TEST_CASE("nothing happens to handles that are NULL") {
  CHECK(rondel_finalize(nullptr) == RONDEL_OK);
  CHECK(rondel_destroy(nullptr) == RONDEL_OK);
  CHECK(rondel_rank(nullptr) == -1);
  CHECK(rondel_size(nullptr) == -1);
  CHECK(std::string(rondel_transport(nullptr)) == "");
  CHECK(rondel_abort(nullptr, "x") == RONDEL_INVALID_ARGUMENT);
  CHECK(rondel_barrier(nullptr) == RONDEL_INVALID_ARGUMENT);
  rondel_request_t none = nullptr;
  std::size_t index = 0;
  CHECK(rondel_wait_any(&none, 1, 0, &index) == RONDEL_INVALID_ARGUMENT);
}

TEST_CASE("a request that outlives its communicator ends as aborted") {
  rondel_comm_t comm = nullptr;
  REQUIRE(rondel_init(nullptr, &comm) == RONDEL_OK);
  std::array<rondel_request_t, 2> requests{};
  REQUIRE(rondel_ibarrier(comm, &requests[0]) == RONDEL_OK);
  REQUIRE(rondel_ibarrier(comm, &requests[1]) == RONDEL_OK);
  CHECK(rondel_destroy(comm) == RONDEL_OK);
  CHECK(rondel_wait(&requests[0], -1) == RONDEL_ABORTED);
  CHECK(requests[0] == nullptr);
  std::size_t index = 9;
  CHECK(rondel_wait_any(requests.data(), 2, -1, &index) == RONDEL_ABORTED);
  CHECK(index == 1);
  CHECK(requests[1] == nullptr);
}
