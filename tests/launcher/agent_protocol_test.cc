// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent_protocol.h"

#include <catch2/catch.hpp>
#include <string>

#include "lib/auth.h"
#include "tests/support/seed.h"

namespace agent = rondel::agent;
using rondel::Bytes;
using rondel::test::Random;

namespace {

std::string any_text(Random& random) {
  std::string text(random.below(40), ' ');
  for (char& c : text) c = static_cast<char>(random.below(256));
  return text;
}

Bytes any_bytes(Random& random) {
  Bytes bytes(random.below(300));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.below(256));
  return bytes;
}

std::vector<std::string> any_texts(Random& random) {
  std::vector<std::string> texts(random.below(5));
  for (std::string& text : texts) text = any_text(random);
  return texts;
}

rondel::Rank any_rank(Random& random) { return static_cast<rondel::Rank>(random.below(70'000)) - 1; }

agent::Order any_order(Random& random) {
  agent::Order order;
  order.ranks.resize(random.below(4));
  for (rondel::RankPlace& place : order.ranks)
    place = {any_rank(random),  any_rank(random), any_rank(random), any_rank(random),
             random.below(100), any_rank(random), any_rank(random)};
  order.program = any_texts(random);
  order.program.push_back(any_text(random));
  order.environment.variables = any_texts(random);
  order.environment.chosen = {"A", "MASTER_ADDR"};
  order.own_variables = random.below(2) == 1;
  order.search_path = any_text(random);
  order.contact = {any_text(random), "", any_text(random), static_cast<std::uint16_t>(random.below(65'536))};
  order.stores = {"10.0.0.1:1", any_text(random)};
  order.secret.resize(rondel::Secret::kBytes, static_cast<std::byte>(random.below(256)));
  order.directory = any_text(random);
  order.input = static_cast<agent::Input>(random.below(3));
  order.input_rank = any_rank(random);
  order.binding = {static_cast<rondel::BindTo>(random.below(rondel::kBindings)),
                   static_cast<rondel::TakeBy>(random.below(rondel::kOrders)), random.below(2) == 1};
  order.output_window = static_cast<std::uint32_t>(random.below(1U << 30U));
  order.grace = std::chrono::milliseconds(random.below(1'000'000));
  order.silence = std::chrono::milliseconds(random.below(1'000'000));
  return order;
}

agent::FromLauncher any_probe(Random& random) {
  const std::chrono::milliseconds time(random.below(100'000));
  switch (random.below(4)) {
    case 0:
      return agent::Examine{.host = 7,
                            .secret = Bytes(rondel::Secret::kBytes),
                            .net = any_text(random),
                            .ports = any_text(random),
                            .ranks = 3,
                            .binding = {.to = rondel::BindTo::socket, .by = rondel::TakeBy::numa},
                            .silence = time};
    case 1:
      return agent::ClockAsk{static_cast<std::uint32_t>(random.below(1000))};
    case 2:
      return agent::Reach{
          .targets = {{.host = 1, .store = random.below(2) == 1, .addresses = any_texts(random)},
                      {.host = 2, .store = false, .addresses = any_texts(random)}},
          .patience = time,
          .limit = time};
    default:
      return agent::Measure{.host = 9, .address = any_text(random), .time = time, .limit = time};
  }
}

agent::FromAgent any_finding(Random& random) {
  switch (random.below(4)) {
    case 0:
      return agent::Examined{any_text(random)};
    case 1:
      return agent::ClockTell{4, random.below(1U << 30U) * std::uint64_t{1} << 30U};
    case 2:
      return agent::Reached{{{.host = 3,
                              .store = random.below(2) == 1,
                              .address = any_text(random),
                              .reached = random.below(2) == 1,
                              .why_not = any_text(random)}}};
    default:
      return agent::Measured{.host = 2,
                             .why_not = any_text(random),
                             .round_trip_ns = ~std::uint64_t{0},
                             .bytes = random.below(1U << 30U),
                             .bulk_ns = 17,
                             .path_mtu = 1500};
  }
}

agent::FromLauncher any_of_launcher(Random& random) {
  switch (random.below(9)) {
    case 8:
      return any_probe(random);
    case 0:
      return any_order(random);
    case 1:
      return agent::Signal{static_cast<int>(random.below(64))};
    case 2:
      return agent::Kill{};
    case 3:
      return agent::Finish{std::chrono::milliseconds(random.below(100'000))};
    case 4:
      return agent::Room{static_cast<agent::Stream>(random.below(2)), 77};
    case 5:
      return agent::InputPiece{any_bytes(random)};
    case 6:
      return agent::InputEnd{};
    default:
      return agent::Alive{};
  }
}

agent::FromAgent any_of_agent(Random& random) {
  switch (random.below(11)) {
    case 8:
      return agent::Alive{};
    case 10:
      return any_finding(random);
    case 0:
      return agent::Hello{agent::kProtocol, any_text(random), any_text(random), any_text(random), 4242, 17,
                          any_text(random)};
    case 1:
      return agent::Started{any_rank(random), 4711, any_text(random)};
    case 2:
      return agent::Output{any_rank(random), static_cast<agent::Stream>(random.below(2)), any_bytes(random)};
    case 3:
      return agent::OutputEnd{any_rank(random), static_cast<agent::Stream>(random.below(2))};
    case 4:
      return agent::Ended{{{any_rank(random), {3, 0}}, {any_rank(random), {0, 9}}}};
    case 5:
      return agent::StartFailed{any_text(random)};
    case 6:
      return agent::Joined{any_text(random)};
    case 7:
      return agent::InputRoom{123'456};
    default:
      return agent::Done{};
  }
}

}  // namespace

TEST_CASE("what is written is read again, whatever it holds") {
  Random random(rondel::test::test_seed());
  for (int round = 0; round < 5'000; ++round) {
    const Bytes down = encode(any_of_launcher(random));
    const auto order = agent::decode_from_launcher(down);
    REQUIRE(order.ok());
    REQUIRE(encode(*order) == down);
    const Bytes up = encode(any_of_agent(random));
    const auto news = agent::decode_from_agent(up);
    REQUIRE(news.ok());
    REQUIRE(encode(*news) == up);
  }
}

TEST_CASE("an order's fields arrive in their places") {
  Random random(rondel::test::test_seed());
  const agent::Order sent = any_order(random);
  const auto message = agent::decode_from_launcher(encode(agent::FromLauncher(sent)));
  REQUIRE(message.ok());
  const auto& got = std::get<agent::Order>(*message);
  CHECK(got.program == sent.program);
  CHECK(got.environment.variables == sent.environment.variables);
  CHECK(got.environment.chosen == sent.environment.chosen);
  CHECK(got.contact.job == sent.contact.job);
  CHECK(got.contact.master_address == sent.contact.master_address);
  CHECK(got.stores == sent.stores);
  CHECK(got.secret == sent.secret);
  CHECK(got.directory == sent.directory);
  CHECK(got.search_path == sent.search_path);
  CHECK(got.input == sent.input);
  CHECK(got.silence == sent.silence);
}

TEST_CASE("cut, lengthened and changed messages are refused or are others, never believed past their end") {
  Random random(rondel::test::test_seed());
  for (int round = 0; round < 5'000; ++round) {
    Bytes body = encode(any_of_launcher(random));
    const Bytes whole = body;
    body.resize(random.below(body.size()));
    const auto cut = agent::decode_from_launcher(body);
    if (cut.ok()) REQUIRE(encode(*cut) == body);
    body = whole;
    body.push_back(std::byte{0});
    CHECK_FALSE(agent::decode_from_launcher(body).ok());
    body = whole;
    body[random.below(body.size())] ^= static_cast<std::byte>(1 + random.below(255));
    const auto changed = agent::decode_from_launcher(body);
    if (!changed.ok()) REQUIRE(changed.code() == rondel::Code::refused);
  }
}

TEST_CASE("a count or length that is not there allocates nothing") {
  // kind 4 of an agent, "ended": 2^32 - 1 ranks, and none of them
  const Bytes ended{std::byte{4}, std::byte{255}, std::byte{255}, std::byte{255}, std::byte{255}};
  CHECK_FALSE(agent::decode_from_agent(ended).ok());
  CHECK_FALSE(agent::decode_from_agent(Bytes()).ok());
  CHECK_FALSE(agent::decode_from_agent(Bytes{std::byte{200}}).ok());
  CHECK_FALSE(agent::decode_from_launcher(encode(agent::FromLauncher(agent::Order()))).ok());
  CHECK_FALSE(agent::decode_from_launcher(encode(agent::FromLauncher(agent::Examine()))).ok());
}

TEST_CASE("an ending that no process can have is refused") {
  const auto decoded = [](int code, int signal) {
    return agent::decode_from_agent(encode(agent::FromAgent(agent::Ended{{{0, {code, signal}}}}))).ok();
  };
  CHECK(decoded(255, 0));
  CHECK(decoded(0, 64));
  for (const auto& [code, signal] : {std::pair{256, 0}, {-1, 0}, {300, 0}, {0, -5}, {0, 65}})
    CHECK_FALSE(decoded(code, signal));
}

TEST_CASE("of another protocol only the version and the host are read") {
  agent::Hello hello{
      .protocol = 7, .version = "9.9", .host = "there", .address = "x", .free_port = 1, .pid = 1};
  Bytes body = encode(agent::FromAgent(hello));
  body.insert(body.end(), 100, std::byte{1});
  const auto got = agent::decode_from_agent(body);
  REQUIRE(got.ok());
  CHECK(std::get<agent::Hello>(*got).protocol == 7);
  CHECK(std::get<agent::Hello>(*got).version == "9.9");
  CHECK(std::get<agent::Hello>(*got).host == "there");
}
