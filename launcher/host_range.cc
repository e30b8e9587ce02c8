// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "launcher/visible_text.h"

namespace rondel {
namespace {

constexpr std::size_t kLongestName = 253;  // of the domain name system
constexpr std::size_t kMostDigits = 18;    // fits in 64 bits, with room for one more

struct Range {
  std::uint64_t first = 0, last = 0;
  std::size_t width = 1;  // digits at least
};

/// A text, and behind it a number out of one of the ranges; only the last piece may have none.
struct Piece {
  std::string_view text;
  std::vector<Range> ranges;
};

Status wrong_range(std::string_view term, std::string_view what) {
  return Status(Code::invalid_argument, fmt::format("range {}: {}", visible(term), what),
                "expected numbers such as 7 or 01-16, with commas between them");
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

Result<Range> parse_range(std::string_view term) {
  const auto dash = term.find('-');
  const std::string_view first = term.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : term.substr(dash + 1);
  if (!is_number(first) || !is_number(last)) return wrong_range(term, "not a number or two");
  if (first.size() > kMostDigits || last.size() > kMostDigits)
    return wrong_range(term, fmt::format("more than {} digits", kMostDigits));
  if (last.front() == '0' && last.size() > 1 && last.size() != first.size())
    return wrong_range(term, "its ends have zeros in front and different lengths");
  const Range range{number_of(first), number_of(last), first.size()};
  if (range.last < range.first) return wrong_range(term, "it runs backwards");
  return range;
}

Result<std::vector<Range>> parse_ranges(std::string_view list) {
  std::vector<Range> ranges;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const auto range = parse_range(list.substr(at, comma - at));
    if (!range.ok()) return range.status();
    ranges.push_back(*range);
    at = comma + 1;
  }
  return ranges;
}

Status check_text(std::string_view text) {
  const auto odd = std::find_if_not(text.begin(), text.end(), is_name_character);
  if (odd == text.end()) return {};
  return Status(Code::invalid_argument, fmt::format("{} in the host name", visible({&*odd, 1})),
                "expected letters, digits, '.', '_', '-' and ranges such as n[01-16]");
}

Result<std::vector<Piece>> cut(std::string_view pattern) {
  std::vector<Piece> pieces;
  while (!pattern.empty()) {
    const auto open = pattern.find('[');
    Piece piece{pattern.substr(0, open), {}};
    RONDEL_TRY(check_text(piece.text));
    if (open != std::string_view::npos) {
      const auto close = pattern.find(']', open);
      if (close == std::string_view::npos)
        return Status(Code::invalid_argument, "'[' without a ']' behind it",
                      "expected a range such as n[01-16]");
      auto ranges = parse_ranges(pattern.substr(open + 1, close - open - 1));
      if (!ranges.ok()) return std::move(ranges).status();
      piece.ranges = *std::move(ranges);
      pattern.remove_prefix(close + 1);
    } else {
      pattern = {};
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

/// How many names there will be, or `most` + 1 as soon as it is known to be more than `most`.
std::uint64_t count_names(const std::vector<Piece>& pieces, std::uint64_t most) {
  std::uint64_t names = 1;
  for (const Piece& piece : pieces) {
    std::uint64_t numbers = 0;
    for (const Range& range : piece.ranges) {
      if (range.last - range.first >= most - numbers) return most + 1;
      numbers += range.last - range.first + 1;
    }
    numbers = std::max<std::uint64_t>(numbers, 1);  // a text alone
    if (names > most / numbers) return most + 1;
    names *= numbers;
  }
  return names;
}

std::size_t longest_name(const std::vector<Piece>& pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) {
    std::size_t digits = 0;
    for (const Range& range : piece.ranges)
      digits = std::max({digits, range.width, fmt::formatted_size("{}", range.last)});
    bytes += piece.text.size() + digits;
  }
  return bytes;
}

std::vector<std::string> numbers_of(const std::vector<Range>& ranges) {
  std::vector<std::string> numbers;
  for (const Range& range : ranges)
    for (std::uint64_t number = range.first; number <= range.last; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, range.width));
  return numbers;
}

void append(std::vector<std::string>& names, const Piece& piece) {
  const std::vector<std::string> numbers = numbers_of(piece.ranges);
  for (std::string& name : names) {
    name += piece.text;
    if (numbers.size() == 1) name += numbers.front();
  }
  if (numbers.size() < 2) return;
  std::vector<std::string> longer;
  longer.reserve(names.size() * numbers.size());
  for (const std::string& name : names)
    for (const std::string& number : numbers) longer.push_back(name + number);
  names.swap(longer);
}

}  // namespace

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

Result<std::vector<std::string>> expand_names(std::string_view pattern, std::size_t most) {
  const auto pieces = cut(pattern);
  if (!pieces.ok()) return pieces.status();
  // A name alone is always let through: it costs no more than what was written.
  const std::size_t limit = std::max<std::size_t>(most, 1);
  if (count_names(*pieces, limit) > limit)
    return Status(Code::invalid_argument,
                  fmt::format("the number of hosts that its ranges make is over {}", limit),
                  fmt::format("expected at most {} from all ranges of a list or file", kMostRangeHosts));
  if (longest_name(*pieces) > kLongestName)
    return Status(Code::invalid_argument, "the host name is too long",
                  fmt::format("expected at most {} bytes", kLongestName));
  std::vector<std::string> names{""};
  for (const Piece& piece : *pieces) append(names, piece);
  return names;
}

}  // namespace rondel
