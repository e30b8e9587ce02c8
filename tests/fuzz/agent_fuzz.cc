// SPDX-License-Identifier: Apache-2.0
// What the agent and the launcher read of each other: any bytes as a greeting behind noise, as a frame
// stream, as messages of both directions. Input: {u8 which way, u8 size of pieces, bytes}.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/agent_protocol.h"
#include "launcher/doctor/facts_json.h"
#include "launcher/preamble.h"
#include "launcher/ssh_command.h"
#include "lib/check.h"
#include "lib/frame.h"
#include "tests/fuzz/pieces.h"

namespace {

using rondel::check;
namespace agent = rondel::agent;

/// A message that is read is written as it came, except where a greeting of another protocol was left unread.
void read_messages(std::span<const std::byte> body) {
  const auto down = agent::decode_from_launcher(body);
  if (down.ok()) check(encode(*down).size() == body.size(), "what is written has the size of what was read");
  const auto up = agent::decode_from_agent(body);
  if (!up.ok()) return check(up.code() == rondel::Code::refused, "what can not be read is refused");
  if (const auto* examined = std::get_if<agent::Examined>(&*up))
    static_cast<void>(rondel::doctor::facts_from(examined->facts));
  const auto* hello = std::get_if<agent::Hello>(&*up);
  if (hello == nullptr || hello->protocol == agent::kProtocol)
    check(encode(*up).size() == body.size(), "what is written has the size of what was read");
}

void read_stream(rondel::fuzz::Pieces& pieces, std::size_t step) {
  rondel::Preamble preamble(agent::kAgentMagic);
  rondel::FrameReader reader(1U << 16U);
  bool speaks = false;
  while (!pieces.empty()) {
    auto piece = pieces.bytes(step);
    if (!speaks) {
      const auto rest = preamble.feed(piece);
      check(preamble.skipped().size() <= rondel::Preamble::kKeptBytes, "little is kept");
      if (!rest.ok()) return;
      if (!*rest) continue;
      speaks = true;
      piece = **rest;
    }
    reader.add(piece);
    for (;;) {
      const auto body = reader.next();
      if (!body.ok()) return;
      if (!*body) break;
      read_messages(**body);
    }
  }
}

void explain(std::string_view text, std::uint8_t code) {
  const std::string words(text);
  const std::string said = rondel::explain_ssh(
      {.ending = {code, 0}, .greeted = (code & 1) != 0, .errors = words, .printed = words},
      {.remote_path = "/r"});
  check(said.size() < 2500, "an explanation is short, whatever the input");
  for (const char c : said) check(c >= ' ' && c <= '~', "an explanation is fit for a terminal");
  const auto word = rondel::shell_word(text);
  if (word.ok()) check(word->find('\n') == std::string::npos, "a word is one line");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rondel::fuzz::Pieces pieces(data, size);
  const std::uint8_t way = pieces.byte();
  const std::size_t step = pieces.byte() + std::size_t{1};
  if (way % 3 == 0) {
    read_stream(pieces, step);
    return 0;
  }
  const auto bytes = pieces.bytes(size);
  if (way % 3 == 1) read_messages(bytes);
  if (way % 3 == 2)
    explain({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, static_cast<std::uint8_t>(step));
  return 0;
}
