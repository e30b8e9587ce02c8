// SPDX-License-Identifier: Apache-2.0
// Any words as a command line of rondelrun, after any text as its configuration file. Input: {u16 length of
// the file, file, words that each end with a newline or the input}.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options.h"
#include "launcher/settings_file.h"
#include "lib/check.h"
#include "tests/fuzz/pieces.h"

namespace {

using rondel::check;
using rondel::Options;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

void check_refusal(const rondel::Status& status) {
  check(status.code() == rondel::Code::invalid_argument, "what is wrong is an argument");
  const std::string text = status.text();
  check(text.size() < 5000, "an error is short, whatever the input");
  for (const char c : text)
    check(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "an error is fit for a terminal");
}

void check_options(const Options& options, std::span<const std::string> words) {
  check(options.ranks >= 0 && options.per_host >= 0, "no negative numbers of ranks");
  check(!options.timeout || options.timeout->count() > 0, "a time limit is a time");
  check(options.kill_grace.count() >= 0, "a grace is no time before");
  check(options.program.size() <= words.size(), "the program is of the command line");
  for (std::size_t i = 0; i < options.program.size(); ++i)
    check(options.program[i] == words[words.size() - options.program.size() + i],
          "the program's words are untouched, and the last ones");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rondel::fuzz::Pieces pieces(data, size);
  const std::string_view file = text_of(pieces.blob());
  const std::vector<std::string> words = words_of(text_of(pieces.bytes(size)));
  const auto named = rondel::config_file_in(words);
  if (!named.ok()) check_refusal(named.status());
  const auto settings = rondel::parse_settings(file, "job.conf");
  if (!settings.ok()) {
    check_refusal(settings.status());
    return 0;
  }
  const auto options = rondel::parse_options(words, *settings);
  if (options.ok())
    check_options(*options, words);
  else
    check_refusal(options.status());
  return 0;
}
