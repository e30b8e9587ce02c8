// SPDX-License-Identifier: Apache-2.0
// Bytes as hexadecimal digits, two for each, and back. Pure, any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/memory.h"

namespace rondel {

std::string hexadecimal(std::span<const std::byte> bytes);
/// nullopt where a digit is missing or none.
std::optional<Bytes> from_hexadecimal(std::string_view text);

}  // namespace rondel
