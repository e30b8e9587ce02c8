// SPDX-License-Identifier: Apache-2.0
#include "lib/liveness/messages.h"

#include <catch2/catch.hpp>

#include "lib/liveness/service.h"

namespace rondel::liveness {
namespace {

TEST_CASE("an incident comes back as it was") {
  const Incident sent{0x1122334455667788, Code::mismatch, 7, "nodeb", "shapes differ", "make them equal"};
  const auto got = decode_incident(encode(sent));
  REQUIRE(got.ok());
  CHECK(got->context == sent.context);
  CHECK(got->code == sent.code);
  CHECK(got->guilty == 7);
  CHECK(got->host == "nodeb");
  CHECK(got->cause == "shapes differ");
  CHECK(got->hint == "make them equal");
  CHECK(decode_incident(encode(Incident{1, Code::aborted, kNoRank, "", "", ""}))->guilty == kNoRank);
}

TEST_CASE("texts that are too long are cut, not refused") {
  const Incident sent{
      1, Code::internal, 0, std::string(1000, 'h'), std::string(10'000, 'c'), std::string(5'000, 'x')};
  const auto got = decode_incident(encode(sent));
  REQUIRE(got.ok());
  CHECK(got->host == std::string(256, 'h'));
  CHECK(got->cause == std::string(4096, 'c'));
  CHECK(decode_to_server(encode(ToServer(Suspect{1, 2, std::string(5'000, 'e')}))).ok());
  CHECK(decode_to_server(encode(ToServer(Overdue{1, 2, 3, std::string(5'000, 'o')}))).ok());
  CHECK(decode_to_server(encode(ToServer(Join{1, 0, 1, std::string(5'000, 'h')}))).ok());
}

TEST_CASE("incidents that are none are refused") {
  const Bytes good = encode(Incident{1, Code::aborted, 2, "h", "c", "x"});
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK(decode_incident(std::span(good).first(cut)).code() == Code::refused);
  Bytes longer = good;
  longer.push_back({});
  CHECK(decode_incident(longer).code() == Code::refused);
  for (const int code : {0, 13, 255}) {
    Bytes other = good;
    other[8] = static_cast<std::byte>(code);
    CHECK(decode_incident(other).code() == Code::refused);
  }
}

template <class Message>
Message round_trip(const Message& sent) {
  const Bytes bytes = encode(ToServer(sent));
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    CHECK(decode_to_server(std::span(bytes).first(cut)).code() == Code::refused);
  Bytes longer = bytes;
  longer.push_back({});
  CHECK(decode_to_server(longer).code() == Code::refused);
  auto got = decode_to_server(bytes);
  REQUIRE(got.ok());
  REQUIRE(std::holds_alternative<Message>(*got));
  return std::get<Message>(*got);
}

TEST_CASE("every message to the server comes back as it was, and not when it is cut or longer") {
  const auto join = round_trip(Join{9, 3, 8, "nodec"});
  CHECK(join.context == 9);
  CHECK(join.rank == 3);
  CHECK(join.size == 8);
  CHECK(join.host == "nodec");
  CHECK(round_trip(Leave{10}).context == 10);
  const auto beat = round_trip(Beat{{{1, 5}, {2, 1ULL << 40}}});
  REQUIRE(beat.progress.size() == 2);
  CHECK(beat.progress[1].context == 2);
  CHECK(beat.progress[1].entered == 1ULL << 40);
  CHECK(round_trip(Beat{}).progress.empty());
  CHECK(round_trip(Incident{4, Code::aborted, 1, "h", "why", "do"}).cause == "why");
  const auto suspect = round_trip(Suspect{5, 2, "reset"});
  CHECK(suspect.peer == 2);
  CHECK(suspect.evidence == "reset");
  const auto overdue = round_trip(Overdue{6, 1, 17, "allreduce"});
  CHECK(overdue.sequence == 17);
  CHECK(overdue.operation == "allreduce");
  round_trip(Goodbye{});
}

TEST_CASE("every message to a member comes back") {
  CHECK(std::holds_alternative<Poll>(*decode_to_member(encode(ToMember(Poll{})))));
  const auto incident = decode_to_member(encode(ToMember(Incident{4, Code::aborted, 1, "h", "why", "do"})));
  REQUIRE(incident.ok());
  CHECK(std::get<Incident>(*incident).cause == "why");
  CHECK(decode_to_member({}).code() == Code::refused);
  CHECK(decode_to_member(encode(ToServer(Goodbye{}))).code() == Code::refused);
}

TEST_CASE("a join outside its size is refused") {
  for (const Join& join : {Join{1, 3, 3, ""}, Join{1, -1, 3, ""}, Join{1, 0, 0, ""}, Join{1, 0, -5, ""}})
    CHECK(decode_to_server(encode(ToServer(join))).code() == Code::refused);
}

TEST_CASE("a peer that can be no rank is refused, so that no incident can name it") {
  CHECK(decode_to_server(encode(ToServer(Suspect{1, -2, "e"}))).code() == Code::refused);
  CHECK(decode_to_server(encode(ToServer(Overdue{1, -2, 3, "o"}))).code() == Code::refused);
  CHECK(decode_to_server(encode(ToServer(Overdue{1, kNoRank, 3, "o"}))).ok());
}

TEST_CASE("a beat of more communicators than fit is cut to a message that is legal") {
  Beat beat;
  beat.progress.resize(10'000);
  const Bytes bytes = encode(ToServer(beat));
  CHECK(bytes.size() <= kMessageLimit);
  CHECK(decode_to_server(bytes).ok());
}

TEST_CASE("the service answers frames with frames and counts arrivals") {
  Service service;
  const TimePoint now{};
  const auto say = [&](MemberId member, const ToServer& message) {
    auto out = service.take(member, encode(message), now);
    REQUIRE(out.ok());
    return *out;
  };
  CHECK(say(1, Join{7, 1, 2, "a"}).empty());
  CHECK(say(2, Join{8, 0, 2, "b"}).empty());
  CHECK(say(2, Join{7, 0, 2, "b"}).empty());
  CHECK(service.arrived() == std::set<Rank>{0, 1});
  const auto polls = say(1, Overdue{7, 0, 3, "barrier"});
  REQUIRE(polls.size() == 2);
  CHECK(std::holds_alternative<Poll>(*decode_to_member(polls[0].body)));
  CHECK_FALSE(service.first_fallen());
  const auto out = service.gone(2, "");
  CHECK(service.first_fallen() == Rank{0});
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 1);
  CHECK(std::get<Incident>(*decode_to_member(out[0].body)).guilty == 0);
  CHECK(service.take(1, Bytes(3), now).code() == Code::refused);
  static_cast<void>(service.gone(1, ""));
  CHECK(service.first_fallen() == Rank{0});  // whoever falls after it
}

}  // namespace
}  // namespace rondel::liveness
