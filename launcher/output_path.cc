// SPDX-License-Identifier: Apache-2.0
#include "launcher/output_path.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/visible_text.h"

namespace rondel {
namespace {

std::string padded(Rank rank, Rank size) {
  const auto digits = std::to_string(std::max<Rank>(size - 1, 0)).size();
  return fmt::format("{:0{}}", rank, digits);
}

}  // namespace

bool is_output_pattern(std::string_view text) { return text.find('%') != std::string_view::npos; }

Status check_output_pattern(std::string_view text) {
  bool has_rank = false;
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 2)) {
    const std::string_view conversion = text.substr(at, 2);
    if (conversion.size() < 2 || std::string_view("rRhj%").find(conversion[1]) == std::string_view::npos)
      return Status(Code::invalid_argument,
                    fmt::format("--output-filename: {} has {}", visible(text), visible(conversion)),
                    "write %r or %R for the rank, %h for the host, %j for the job, %% for a % sign");
    has_rank = has_rank || conversion[1] == 'r' || conversion[1] == 'R';
    if (at + 2 >= text.size()) break;
  }
  if (!is_output_pattern(text) || has_rank) return {};
  return Status(Code::invalid_argument,
                fmt::format("--output-filename: {} is one file for all ranks", visible(text)),
                "put %r or %R in it, which stand for the rank");
}

std::string output_path(std::string_view text, const OutputNames& names, agent::Stream stream) {
  if (!is_output_pattern(text))
    return fmt::format("{}/rank.{}/{}", text, names.rank,
                       stream == agent::Stream::standard_output ? "stdout" : "stderr");
  std::string path;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%' || at + 1 == text.size()) {
      path += text[at];
      continue;
    }
    switch (text[++at]) {
      case 'r':
        path += std::to_string(names.rank);
        break;
      case 'R':
        path += padded(names.rank, names.size);
        break;
      case 'h':
        path += names.host;
        break;
      case 'j':
        path += names.job;
        break;
      default:
        path += text[at];
    }
  }
  return path;
}

}  // namespace rondel
