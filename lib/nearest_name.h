// SPDX-License-Identifier: Apache-2.0
// nearest_name: the known name that a mistyped one was most likely meant to be, for "did you mean" texts.
// Pure. Candidates are taken as they are; it does not know what the names stand for.
#pragma once

#include <span>
#include <string_view>

namespace rondel {

/// The candidate with the fewest edits (insert, delete, replace, swap of neighbours) from `word`, the first
/// one of equals; empty when even that differs in more than half of its letters.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace rondel
