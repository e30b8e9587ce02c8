// SPDX-License-Identifier: Apache-2.0
#include "lib/hexadecimal.h"

#include <fmt/format.h>

#include <charconv>

namespace rondel {

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::optional<Bytes> from_hexadecimal(std::string_view text) {
  Bytes bytes;
  for (; text.size() >= 2; text.remove_prefix(2)) {
    unsigned value = 0;
    if (std::from_chars(text.data(), text.data() + 2, value, 16).ptr != text.data() + 2) return std::nullopt;
    bytes.push_back(static_cast<std::byte>(value));
  }
  if (!text.empty()) return std::nullopt;
  return bytes;
}

}  // namespace rondel
