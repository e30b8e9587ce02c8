// SPDX-License-Identifier: Apache-2.0
#include "launcher/visible_text.h"

#include <catch2/catch.hpp>

using rondel::visible;

TEST_CASE("what a terminal would act on is spelled out, and length is bounded") {
  CHECK(visible("node1:4") == "\"node1:4\"");
  CHECK(visible("") == "\"\"");
  CHECK(visible("a\tb\r\n\x1b[2J\x7f\xc3\xa9") == "\"a\\tb\\r\\n\\x1b[2J\\x7f\\xc3\\xa9\"");
  CHECK(visible("say \"a\\b\"") == R"("say \"a\\b\"")");
  CHECK(visible(std::string_view("\0", 1)) == "\"\\x00\"");
  CHECK(visible("abcd", 4) == "\"abcd\"");
  CHECK(visible("abcde", 4) == "\"abcd\"...");
}

TEST_CASE("a line that others wrote stays one line, and readable") {
  using rondel::one_line;
  CHECK(one_line("plain \"text\" \\ \xc3\xa9") == "plain \"text\" \\ \xc3\xa9");
  CHECK(one_line("a\nrondelrun: forged\x1b[2J\x7f") == "a\\nrondelrun: forged\\x1b[2J\\x7f");
}
