// SPDX-License-Identifier: Apache-2.0
#include "ring/introduction.h"

#include <catch2/catch.hpp>
#include <span>
#include <string>

namespace rondel {
namespace {

Hello sample_hello() {
  Hello hello;
  hello.size = 4;
  hello.transport = "tcp";
  hello.algorithm = "ring";
  hello.segment_bytes = 1 << 20;
  hello.host.name = "node1";
  hello.host.kernel = "boot/net";
  hello.host.cores = 16;
  Offer offer{"tcp", {}};
  offer.probe.usable = true;
  hello.offers.push_back(offer);
  return hello;
}

Answer sample_answer() {
  Answer answer;
  answer.unreached = {0, 2};
  answer.why_unreached = "another user's";
  answer.data = Bytes(3, std::byte{1});
  answer.pairs = Bytes(5, std::byte{2});
  return answer;
}

TEST_CASE("a greeting arrives as it was said") {
  const auto hello = decode_hello(encode(sample_hello()), 3);
  REQUIRE(hello.ok());
  CHECK(hello->size == 4);
  CHECK(hello->transport == "tcp");
  CHECK(hello->algorithm == "ring");
  CHECK(hello->segment_bytes == 1 << 20);
  CHECK(hello->host.name == "node1");
  CHECK(hello->host.kernel == "boot/net");
  CHECK(hello->host.cores == 16);
  CHECK(hello->offers.size() == 1);
}

TEST_CASE("a rank of another version is refused with both versions, whatever else it says") {
  Hello other = sample_hello();
  other.version = kProtocolVersion + 1;
  Bytes bytes = encode(other);
  bytes.resize(sizeof other.version);  // later versions may differ from here on
  const auto refused = decode_hello(bytes, 3);
  REQUIRE(refused.code() == Code::refused);
  CHECK(refused.status().text().find("rank 3 speaks protocol version " +
                                     std::to_string(kProtocolVersion + 1) + ", this rank " +
                                     std::to_string(kProtocolVersion)) != std::string::npos);
}

TEST_CASE("an answer arrives as it was said, and a failure with its rank and host") {
  const auto answer = decode_answer(encode(sample_answer()), 3, "node1");
  REQUIRE(answer.ok());
  CHECK(answer->opened.ok());
  CHECK(answer->unreached == std::vector<Rank>{0, 2});
  CHECK(answer->why_unreached == "another user's");
  CHECK(answer->data.size() == 3);
  CHECK(answer->pairs.size() == 5);
  Answer failed;
  failed.opened = Status(Code::out_of_resources, "no descriptors", "raise ulimit -n");
  const auto told = decode_answer(encode(failed), 3, "node1");
  REQUIRE(told.ok());
  CHECK(told->opened.code() == Code::out_of_resources);
  CHECK(told->opened.text() == "rank 3 on node1 can not start: no descriptors; raise ulimit -n");
}

TEST_CASE("what is cut short, goes on, or makes no sense is refused") {
  Bytes hello = encode(sample_hello()), answer = encode(sample_answer());
  for (std::size_t length = 0; length < hello.size(); ++length)
    CHECK(decode_hello(Bytes(hello.begin(), hello.begin() + static_cast<std::ptrdiff_t>(length)), 1).code() ==
          Code::refused);
  for (std::size_t length = 0; length < answer.size(); ++length)
    CHECK(decode_answer(Bytes(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(length)), 1, "")
              .code() == Code::refused);
  hello.push_back(std::byte{0});
  answer.push_back(std::byte{0});
  CHECK(decode_hello(hello, 1).code() == Code::refused);
  CHECK(decode_answer(answer, 1, "").code() == Code::refused);
  answer.pop_back();
  answer.front() = std::byte{200};  // no such failure
  CHECK(decode_answer(answer, 1, "").code() == Code::refused);
}

}  // namespace
}  // namespace rondel
