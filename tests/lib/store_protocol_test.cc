// SPDX-License-Identifier: Apache-2.0
#include "lib/store/protocol.h"

#include <catch2/catch.hpp>
#include <limits>

#include "lib/frame.h"
#include "lib/store/store_service.h"
#include "tests/lib/store_suite.h"

namespace rondel::store {
namespace {

template <class What>
What round_trip(const What& sent) {
  const Bytes bytes = encode(Request{42, sent});
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    CHECK(decode_request(std::span(bytes).first(cut)).code() == Code::refused);
  auto got = decode_request(bytes);
  REQUIRE(got.ok());
  CHECK(got->id == 42);
  REQUIRE(std::holds_alternative<What>(got->what));
  return std::get<What>(got->what);
}

TEST_CASE("every store request comes back as it was, and not when it is cut") {
  const auto set = round_trip(SetRequest{"key", test::bytes_of("value")});
  CHECK(set.key == "key");
  CHECK(test::text_of(set.value) == "value");
  CHECK(round_trip(GetRequest{"k"}).key == "k");
  CHECK(round_trip(AddRequest{"k", std::numeric_limits<std::int64_t>::min()}).increment ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(round_trip(WaitRequest{{"a", "b"}}).keys == std::vector<std::string>{"a", "b"});
  CHECK(round_trip(MissingRequest{{"c"}}).keys == std::vector<std::string>{"c"});
  CHECK(round_trip(WaitRequest{}).keys.empty());
}

TEST_CASE("replies, sums and keys come back") {
  const auto reply = decode_reply(encode(Reply{7, Code::mismatch, test::bytes_of("v"), "why"}));
  REQUIRE(reply.ok());
  CHECK(reply->id == 7);
  CHECK(reply->code == Code::mismatch);
  CHECK(test::text_of(reply->value) == "v");
  CHECK(reply->cause == "why");
  CHECK(*decode_sum(encode_sum(-3)) == -3);
  CHECK(decode_sum(Bytes(7)).code() == Code::refused);
  const std::vector<std::string> keys{"x", "", "yy"};
  CHECK(*decode_keys(encode_keys(keys)) == keys);
  CHECK(decode_reply(Bytes(3)).code() == Code::refused);
}

TEST_CASE("the largest messages fit in a frame") {
  const std::string key(kStoreKeyLimit, 'k');
  CHECK(encode(Request{1, SetRequest{key, Bytes(kStoreValueLimit)}}).size() <= kFrameLimit);
  CHECK(encode(Request{1, WaitRequest{std::vector<std::string>(kKeysPerRequest, key)}}).size() <=
        kFrameLimit);
}

TEST_CASE("frames come out whole however they arrive") {
  Bytes stream;
  for (const char* text : {"one", "", "three"}) {
    const Bytes frame = framed(test::bytes_of(text));
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader(5);
    std::vector<std::string> got;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.add(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
      for (;;) {
        const auto body = reader.next();
        REQUIRE(body.ok());
        if (!body->has_value()) break;
        got.push_back(test::text_of(**body));
      }
    }
    CHECK(got == std::vector<std::string>{"one", "", "three"});
  }
}

TEST_CASE("a frame over its limit is refused by its length alone") {
  FrameReader reader(4);
  const Bytes frame = framed(test::bytes_of("12345"));
  reader.add(std::span(frame).first(4));
  CHECK(reader.next().code() == Code::refused);
  CHECK(reader.next().code() == Code::refused);
}

struct Clients {
  StoreService service;

  std::vector<std::pair<ClientId, Reply>> say(ClientId client, std::uint32_t id,
                                              decltype(Request::what) what) {
    const auto out = service.take(client, encode(Request{id, std::move(what)}));
    REQUIRE(out.ok());
    std::vector<std::pair<ClientId, Reply>> replies;
    for (const Outgoing& one : *out) replies.emplace_back(one.to, *decode_reply(one.body));
    return replies;
  }
};

TEST_CASE("one set answers every client that waited for the key, once") {
  Clients clients;
  CHECK(clients.say(1, 10, GetRequest{"a"}).empty());
  CHECK(clients.say(2, 20, WaitRequest{{"a", "b", "a"}}).empty());
  const auto replies = clients.say(3, 30, SetRequest{"a", test::bytes_of("v")});
  REQUIRE(replies.size() == 2);
  CHECK(replies[0].first == 3);
  CHECK(replies[1].first == 1);
  CHECK(replies[1].second.id == 10);
  CHECK(test::text_of(replies[1].second.value) == "v");
  const auto rest = clients.say(3, 31, AddRequest{"b", 1});
  REQUIRE(rest.size() == 2);
  CHECK(rest[1].first == 2);
  CHECK(clients.say(3, 32, SetRequest{"a", {}}).size() == 1);
}

TEST_CASE("a new request replaces the wait that its client gave up, and a client that is gone is forgotten") {
  Clients clients;
  CHECK(clients.say(1, 10, GetRequest{"a"}).empty());
  CHECK(clients.say(1, 11, MissingRequest{{"a"}}).size() == 1);
  CHECK(clients.say(2, 20, WaitRequest{{"a", "b"}}).empty());
  clients.service.gone(2);
  clients.service.gone(2);
  CHECK(clients.say(3, 30, SetRequest{"a", {}}).size() == 1);
  CHECK(clients.say(3, 31, SetRequest{"b", {}}).size() == 1);
}

TEST_CASE("a client that breaks a limit gets a failure, one that speaks nonsense is to be closed") {
  Clients clients;
  const auto replies = clients.say(1, 10, GetRequest{""});
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].second.code == Code::invalid_argument);
  CHECK(clients.service.take(1, test::bytes_of("nonsense")).code() == Code::refused);
}

}  // namespace
}  // namespace rondel::store
