// SPDX-License-Identifier: Apache-2.0
#include "launcher/line_tagger.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/seed.h"

using rondel::LineTagger;

namespace {

std::string fed(LineTagger::Mode mode, const std::vector<std::string>& pieces,
                const std::string& prefix = "# ") {
  LineTagger tagger(mode);
  std::string out;
  for (const std::string& piece : pieces) tagger.feed(piece, prefix, out);
  tagger.finish(prefix, out);
  return out;
}

std::string tagged(const std::vector<std::string>& pieces) { return fed(LineTagger::Mode::tagged, pieces); }

}  // namespace

TEST_CASE("each line is tagged once, however it arrives") {
  CHECK(tagged({"a\nb\n"}) == "# a\n# b\n");
  CHECK(tagged({"a", "\n", "b", "b\nc", "c\n"}) == "# a\n# bb\n# cc\n");
  CHECK(tagged({"\n\n"}) == "# \n# \n");
  CHECK(tagged({""}).empty());
}

TEST_CASE("a last line without a newline is completed") {
  CHECK(tagged({"a\nb"}) == "# a\n# b\n");
  CHECK(tagged({"b"}) == "# b\n");
}

TEST_CASE("carriage returns end lines, with or without a newline behind them") {
  CHECK(tagged({"10%\r20%\r30%\n"}) == "# 10%\n# 20%\n# 30%\n");
  CHECK(tagged({"\r10%", "\r20%", "\r30%\n"}) == "# 10%\n# 20%\n# 30%\n");
  CHECK(tagged({"a\r\nb\r\n"}) == "# a\n# b\n");
  CHECK(tagged({"a\r", "\nb\r", "\n"}) == "# a\n# b\n");
  CHECK(tagged({"\r\n"}) == "# \n");
  CHECK(tagged({"\r", "\n"}) == "# \n");
  CHECK(tagged({"\r\r\r"}).empty());
}

TEST_CASE("a progress bar shows as soon as its line has ended") {
  LineTagger tagger(LineTagger::Mode::tagged);
  std::string out;
  tagger.feed("10%\r", "# ", out);
  CHECK(out == "# 10%\n");
}

TEST_CASE("without tags the bytes stay, whole lines only") {
  CHECK(fed(LineTagger::Mode::whole_lines, {"a\r", "b", "\nc"}, "") == "a\rb\nc\n");
  CHECK(fed(LineTagger::Mode::whole_lines, {"a\nb\r\nc\n"}, "T ") == "T a\nT b\rT \nT c\n");
  LineTagger tagger(LineTagger::Mode::whole_lines);
  std::string out;
  tagger.feed("half", "", out);
  CHECK(out.empty());
  CHECK(fed(LineTagger::Mode::bytes, {"a\r", "b"}) == "a\rb");
}

TEST_CASE("a line without end is cut, so that memory is bounded") {
  const std::string piece(LineTagger::kLongestLine / 4 + 1, 'x');
  const std::string out = tagged({piece, piece, piece, piece, "\n"});
  const std::string expected = "# " + std::string(LineTagger::kLongestLine, 'x') + "\n# xxxx\n";
  CHECK((out == expected));
}

TEST_CASE("where the text is cut into pieces makes no difference") {
  rondel::test::Random random(rondel::test::test_seed());
  const std::string letters = "ab\n\r\n\rc";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::size_t i = random.below(24); i > 0; --i) text += letters[random.below(letters.size())];
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random.below(4);
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    for (const auto mode : {LineTagger::Mode::tagged, LineTagger::Mode::whole_lines})
      REQUIRE(fed(mode, pieces) == fed(mode, {text}));
  }
}
