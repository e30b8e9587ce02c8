// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/library.h"

#include <catch2/catch.hpp>

#include "transports/verbs/transport_on.h"

namespace rondel::verbs {
namespace {

TEST_CASE("a library that is not there is unavailable, with the package that has it") {
  const auto library = load_library("libno-such-verbs.so.1");
  CHECK(library.code() == Code::unavailable);
  INFO(library.status().text());
  CHECK(library.status().text().find("libno-such-verbs.so.1") != std::string::npos);
  CHECK(library.status().text().find("libibverbs1") != std::string::npos);
}

TEST_CASE("a library without the functions is unavailable, and the first missing one is named") {
  const auto library = load_library("libc.so.6");
  CHECK(library.code() == Code::unavailable);
  CHECK(library.status().text().find("ibv_get_device_list") != std::string::npos);
}

TEST_CASE("the system's library, where there is one, has every function") {
  const auto& library = system_library();
  if (!library.ok()) return;
  CHECK(library->create_qp != nullptr);
  CHECK(library->post_send != nullptr);
  CHECK(&system_library() == &library);
}

TEST_CASE("without the library the transport says so in its probe, and opens nothing") {
  const auto secret = Secret::generate();
  REQUIRE(secret.ok());
  const auto transport = make_transport_on(load_library("libno-such-verbs.so.1"), {}, *secret);
  CHECK_FALSE(transport->probe().usable);
  CHECK(transport->probe().why_not.find("libno-such-verbs.so.1") != std::string::npos);
  CHECK(transport->open({}).code() == Code::unavailable);
}

}  // namespace
}  // namespace rondel::verbs
