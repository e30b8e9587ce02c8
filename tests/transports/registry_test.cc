// SPDX-License-Identifier: Apache-2.0
#include "transports/registry.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

namespace rondel {
namespace {

TEST_CASE("the registry makes each transport once, and loopback among them") {
  const auto secret = Secret::generate();
  REQUIRE(secret.ok());
  std::set<std::string, std::less<>> names;
  for (const auto& transport : make_transports({}, *secret)) CHECK(names.emplace(transport->name()).second);
  CHECK(names.contains("loopback"));
}

TEST_CASE("the report names every backend, and why one can not be used") {
  std::set<std::string> names;
  for (const BackendReport& report : report_backends({})) {
    INFO(report.name);
    CHECK(names.insert(report.name).second);
    CHECK(report.probe.usable == report.probe.why_not.empty());
    CHECK((report.built || !report.probe.usable));
  }
  for (const char* const name : {"nccl", "shm", "tcp", "verbs", "loopback"}) CHECK(names.contains(name));
}

TEST_CASE("what can be asked for is what is reported") {
  std::set<std::string> names;
  for (const std::string& name : transport_names()) CHECK(names.insert(name).second);
  for (const BackendReport& report : report_backends({})) {
    CHECK(names.contains(report.name));
    if (!report.joins_processes) CHECK(report.name == "loopback");
  }
}

TEST_CASE("what the report calls built is what the registry makes") {
  const auto secret = Secret::generate();
  REQUIRE(secret.ok());
  const auto transports = make_transports({}, *secret);
  for (const BackendReport& report : report_backends({}))
    CHECK(report.built == std::any_of(transports.begin(), transports.end(), [&report](const auto& transport) {
            return transport->name() == report.name;
          }));
}

}  // namespace
}  // namespace rondel
