// SPDX-License-Identifier: Apache-2.0
#include "launcher/preamble.h"

#include <catch2/catch.hpp>
#include <string>

#include "lib/wire.h"
#include "tests/support/seed.h"

using rondel::Preamble;

namespace {

constexpr std::string_view kMagic = "\n\x01magic\x01\n";

/// Feeds `text` in pieces of up to `most` bytes; what came behind the magic, and what was before it.
std::pair<std::string, std::string> split(const std::string& text, std::size_t most,
                                          rondel::test::Random& random) {
  Preamble preamble(kMagic);
  std::string behind;
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::min(1 + random.below(most), text.size() - at);
    const std::string piece = text.substr(at, length);
    at += length;
    if (found) {
      behind += piece;
      continue;
    }
    const auto rest = preamble.feed(rondel::wire::as_bytes(piece));
    REQUIRE(rest.ok());
    if (!*rest) continue;
    found = true;
    behind.assign(reinterpret_cast<const char*>((*rest)->data()), (*rest)->size());
  }
  REQUIRE(found);
  return {behind, preamble.skipped()};
}

}  // namespace

TEST_CASE("the magic is found in whatever pieces it comes, behind whatever was printed") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 3'000; ++round) {
    std::string noise(random.below(200), ' ');
    for (char& c : noise) c = "\n\x01magic "[random.below(8)];
    if (noise.find(kMagic) != std::string::npos) continue;
    const std::string payload = "payload" + std::string(kMagic);
    const auto [behind, before] = split(noise + std::string(kMagic) + payload, 12, random);
    REQUIRE(behind.ends_with(payload));
    REQUIRE(before.size() <= noise.size());
  }
  const auto [behind, before] = split("welcome\nno newline" + std::string(kMagic), 5, random);
  CHECK(behind.empty());
  CHECK(before == "welcome\nno newline");
}

TEST_CASE("too much without the magic is refused, and only its end is kept") {
  Preamble preamble(kMagic);
  const std::string piece(64 * 1024, 'x');
  std::size_t fed = 0;
  for (; preamble.feed(rondel::wire::as_bytes(piece)).ok(); fed += piece.size())
    REQUIRE(fed <= Preamble::kMostBytes + piece.size());
  CHECK(fed >= Preamble::kMostBytes - piece.size());
  CHECK(preamble.skipped().size() == Preamble::kKeptBytes);
}

TEST_CASE("what was skipped is kept up to its end, also before a magic that is found late") {
  rondel::test::Random random(rondel::test::test_seed());
  const auto [behind, before] =
      split(std::string(100'000, 'a') + "end" + std::string(kMagic) + "b", 1000, random);
  CHECK(behind == "b");
  CHECK(before.size() == Preamble::kKeptBytes);
  CHECK(before.ends_with("aend"));
  for (std::size_t cut = 1; cut < kMagic.size(); ++cut) {
    Preamble preamble(kMagic);
    const std::string first = std::string(100'000, 'a') + std::string(kMagic.substr(0, cut));
    REQUIRE(preamble.feed(rondel::wire::as_bytes(first)).ok());
    REQUIRE(preamble.feed(rondel::wire::as_bytes(kMagic.substr(cut)))->has_value());
    CHECK(preamble.skipped() == std::string(Preamble::kKeptBytes, 'a'));
  }
}
