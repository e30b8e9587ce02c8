// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_order.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "launcher/host_list.h"

namespace agent = rondel::agent;
using Words = std::vector<std::string>;

namespace {

struct World {
  World() {
    options.hosts = *rondel::parse_host_list("node:1,other:2");
    options.program = {"train"};
    options.exports = {"GIVEN=1"};
    plan = *rondel::make_plan(options, Words{"PATH=/p", "HOME=/here"}, "node");
    facts.job = "job-1";
    facts.own_store = "127.0.0.1:5";
    facts.addresses = addresses;
    facts.head.address = "10.0.0.9";
    facts.head.free_port = 77;
  }
  agent::Order order(bool local) const {
    return make_order(options, plan, facts, secret, std::span(plan.places).subspan(local ? 0 : 1), local);
  }
  rondel::Options options;
  rondel::JobPlan plan;
  rondel::OrderFacts facts;
  Words addresses{"10.0.0.1:5", "[fd00::1]:5"};
  rondel::Secret secret = *rondel::Secret::generate();
};

}  // namespace

TEST_CASE("this host's order: its own store, descriptor, environment and directory, and no silence") {
  const World world;
  const agent::Order order = world.order(true);
  CHECK(order.stores == Words{"127.0.0.1:5"});
  CHECK(order.environment.variables == Words{"GIVEN=1", "HOME=/here", "PATH=/p"});
  CHECK_FALSE(order.own_variables);
  CHECK(order.input == agent::Input::inherited);
  CHECK(order.directory.empty());
  CHECK(order.silence.count() == 0);
  CHECK(order.search_path == "/p");
  CHECK(order.contact.master_address == "10.0.0.1");
  CHECK(order.contact.master_port == 77);
}

TEST_CASE("another host's order: all addresses, no variables of this host, an absolute directory") {
  World world;
  const agent::Order order = world.order(false);
  CHECK(order.stores == world.addresses);
  CHECK(order.environment.variables == Words{"GIVEN=1", "PATH=/p"});
  CHECK(order.own_variables);
  CHECK(order.input == agent::Input::forwarded);
  CHECK(order.directory == std::filesystem::current_path());
  CHECK(order.silence > world.plan.silence);
  CHECK(order.contact.master_address.empty());  // as the store is reached
  CHECK(order.secret.size() == rondel::Secret::kBytes);
  world.plan.directory = "sub/./folder";
  CHECK(world.order(false).directory == (std::filesystem::current_path() / "sub/folder").string());
  world.options.only_exports = true;
  CHECK_FALSE(world.order(false).own_variables);
}

TEST_CASE("rank 0 elsewhere: all ranks are told its host's address") {
  World world;
  world.facts.head_is_local = false;
  CHECK(world.order(true).contact.master_address == "10.0.0.9");
  CHECK(world.order(false).contact.master_address == "10.0.0.9");
}

TEST_CASE("nobody reads a terminal that the launcher may not read") {
  World world;
  world.facts.input_is_taken = true;
  CHECK(world.order(true).input == agent::Input::none);
  world.plan.stdin_rank.reset();
  CHECK(world.order(false).input == agent::Input::none);
}
