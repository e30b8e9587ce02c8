// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/survey.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/transports/verbs/world.h"

namespace rondel::verbs::test {
namespace {

Probe probe_of(const Config& config = {}) {
  return make_transport_on(FakeVerbs::table(), config, *Secret::generate())->probe();
}

TEST_CASE("F10: a kernel without RDMA has no device, and that is no error") {
  const FakeVerbs fabric;
  VerbsLibrary table = FakeVerbs::table();
  table.get_device_list = [](int*) -> ibv_device** {
    errno = ENOSYS;
    return nullptr;
  };
  const auto devices = survey(table);
  REQUIRE(devices.ok());
  CHECK(devices->empty());
  const auto transport = make_transport_on(table, {}, *Secret::generate());
  CHECK(transport->probe().why_not.find("no RDMA device") != std::string::npos);
}

TEST_CASE("a list that can not be had is told in the system's words") {
  VerbsLibrary table = FakeVerbs::table();
  table.get_device_list = [](int*) -> ibv_device** {
    errno = EPERM;
    return nullptr;
  };
  CHECK(survey(table).status().text().find("not permitted") != std::string::npos);
}

TEST_CASE("a probe leaves nothing open, however often it is asked") {
  const FakeVerbs fabric;
  for (int i = 0; i < 10; ++i) CHECK(probe_of().usable);
  CHECK(fabric.objects() == 0);
}

TEST_CASE("the probe tells the speed, and its domain tells the networks apart") {
  {
    const FakeVerbs fabric;
    CHECK(probe_of().bytes_per_second == 12'500'000'000);
    CHECK(probe_of().domain == "verbs/RoCE v2");
  }
  const FakeVerbs fabric(
      {FakeDevice{.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = 3, .gids = {{IBV_GID_TYPE_IB, 1}}}});
  CHECK(probe_of().domain == "verbs/InfiniBand");
}

TEST_CASE("ports that are down, iWARP and devices that do not open are reasons") {
  FakeVerbs fabric({FakeDevice{.name = "down0", .state = IBV_PORT_DOWN, .gids = {}},
                    FakeDevice{.name = "iw0", .transport = IBV_TRANSPORT_IWARP, .gids = {}}});
  const Probe probe = probe_of();
  CHECK_FALSE(probe.usable);
  INFO(probe.why_not);
  CHECK(probe.why_not.find("down0:1: its state is down") != std::string::npos);
  CHECK(probe.why_not.find("iw0: it is iWARP") != std::string::npos);
  fabric.fail_call(FakeCall::open_device, EACCES);
  CHECK(probe_of().why_not.find("Permission denied") != std::string::npos);
}

TEST_CASE("who wants encrypted links gets none from an RDMA device") {
  const FakeVerbs fabric;
  Config config;
  config.encrypt = true;
  CHECK_FALSE(probe_of(config).usable);
  CHECK(probe_of(config).why_not.find("RONDEL_ENCRYPT") != std::string::npos);
}

int fork_inits = 0;

TEST_CASE("F05: the library prepares for forks only where the kernel does not") {
  const FakeVerbs fabric;
  const auto inits_with = [](ibv_fork_status (*status)()) {
    fork_inits = 0;
    VerbsLibrary table = FakeVerbs::table();
    table.fork_init = [] { return ++fork_inits, 0; };
    table.is_fork_initialized = status;
    const auto transport = make_transport_on(table, {}, *Secret::generate());
    CHECK(transport->probe().usable);
    CHECK(transport->open({.single_host = true}).ok());
    return fork_inits;
  };
  CHECK(inits_with(nullptr) == 1);
  CHECK(inits_with([] { return IBV_FORK_DISABLED; }) == 1);
  CHECK(inits_with([] { return IBV_FORK_UNNEEDED; }) == 0);
}

}  // namespace
}  // namespace rondel::verbs::test
