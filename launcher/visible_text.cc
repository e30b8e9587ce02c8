// SPDX-License-Identifier: Apache-2.0
#include "launcher/visible_text.h"

#include <fmt/format.h>

namespace rondel {
namespace {

std::string escaped(char c) {
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  if (c == '\n') return "\\n";
  if (c == '"' || c == '\\') return {'\\', c};
  if (c >= ' ' && c <= '~') return {c};
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (control)
      out += escaped(c);
    else
      out += c;
  }
  return out;
}

std::string visible(std::string_view text, std::size_t most_bytes) {
  std::string out = "\"";
  for (const char c : text.substr(0, most_bytes)) out += escaped(c);
  return out + (text.size() > most_bytes ? "\"..." : "\"");
}

}  // namespace rondel
