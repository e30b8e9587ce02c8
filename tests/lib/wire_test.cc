// SPDX-License-Identifier: Apache-2.0
#include "lib/wire.h"

#include <catch2/catch.hpp>
#include <limits>

namespace rondel::wire {
namespace {

TEST_CASE("numbers travel little-endian and come back") {
  Writer writer;
  writer.number(std::uint8_t{0xab}).number(std::uint16_t{0x1234}).number(std::uint32_t{0xdeadbeef});
  writer.number(std::numeric_limits<std::uint64_t>::max() - 1);
  const Bytes bytes = writer.take();
  REQUIRE(bytes.size() == 15);
  CHECK(bytes[1] == std::byte{0x34});
  CHECK(bytes[3] == std::byte{0xef});
  Reader reader(bytes);
  CHECK(reader.number<std::uint8_t>() == 0xab);
  CHECK(reader.number<std::uint16_t>() == 0x1234);
  CHECK(reader.number<std::uint32_t>() == 0xdeadbeef);
  CHECK(reader.number<std::uint64_t>() == std::numeric_limits<std::uint64_t>::max() - 1);
  CHECK(reader.finished());
}

TEST_CASE("texts and blobs keep every byte, empty ones too") {
  const std::string odd("a\0\xff", 3);
  Writer writer;
  writer.text(odd).blob({}).text("end");
  Reader reader(writer.bytes());
  CHECK(reader.text(3) == odd);
  CHECK(reader.blob(0).empty());
  CHECK(reader.text(10) == "end");
  CHECK(reader.finished());
}

TEST_CASE("a reader cut at any length turns bad and stays so") {
  Writer writer;
  writer.number(std::uint32_t{7}).text("hello").number(std::uint64_t{9});
  const Bytes whole = writer.take();
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const auto part = std::span(whole).first(cut);
    Reader reader(part);
    reader.number<std::uint32_t>();
    reader.text(100);
    reader.number<std::uint64_t>();
    CHECK_FALSE(reader.good());
    CHECK(reader.number<std::uint8_t>() == 0);
    CHECK(reader.raw(0).empty());
    CHECK_FALSE(reader.finished());
  }
}

TEST_CASE("a length over its limit is bad before its bytes are looked at") {
  Writer writer;
  writer.number(std::uint32_t{0x7fffffff}).raw(Bytes(64));
  Reader reader(writer.bytes());
  CHECK(reader.blob(1024).empty());
  CHECK_FALSE(reader.good());
  Writer fits;
  fits.text("12345");
  CHECK(Reader(fits.bytes()).blob(5).size() == 5);
  Reader tight(fits.bytes());
  CHECK(tight.blob(4).empty());
  CHECK_FALSE(tight.good());
}

TEST_CASE("unread bytes mean not finished") {
  Reader reader(as_bytes("ab"));
  reader.number<std::uint8_t>();
  CHECK(reader.good());
  CHECK_FALSE(reader.finished());
  CHECK(reader.left() == 1);
}

}  // namespace
}  // namespace rondel::wire
