// SPDX-License-Identifier: Apache-2.0
#include "lib/port_range.h"

#include <fmt/format.h>

#include <charconv>

namespace rondel {

Result<PortRange> parse_port_range(const std::string& text) {
  PortRange range;
  if (text.empty()) return range;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  range.last = range.first;
  auto rest = first;
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '-')
    rest = std::from_chars(first.ptr + 1, end, range.last);
  if (rest.ec == std::errc() && rest.ptr == end && range.first > 0 && range.first <= range.last) return range;
  return Status(Code::invalid_argument, fmt::format("RONDEL_PORTS: can not read '{}'", text),
                "write first-last, for example 40000-40100");
}

}  // namespace rondel
