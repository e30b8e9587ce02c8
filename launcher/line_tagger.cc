// SPDX-License-Identifier: Apache-2.0
#include "launcher/line_tagger.h"

#include <cstring>

namespace rondel {
namespace {

/// Position of the first '\n' or '\r'. `return_at` remembers where the next '\r' is, so that text without any
/// is searched for it only once.
std::size_t find_line_end(std::string_view text, std::size_t from, std::size_t& return_at) {
  if (return_at != std::string_view::npos && return_at < from) return_at = text.find('\r', from);
  const std::size_t newline_at = text.find('\n', from);
  return newline_at < return_at ? newline_at : return_at;
}

}  // namespace

void LineTagger::feed(std::string_view piece, std::string_view prefix, std::string& out) {
  switch (mode_) {
    case Mode::tagged:
      return feed_tagged(piece, prefix, out);
    case Mode::whole_lines:
      return feed_whole_lines(piece, prefix, out);
    case Mode::bytes:
      break;
  }
  out.append(piece);
}

void LineTagger::feed_tagged(std::string_view piece, std::string_view prefix, std::string& out) {
  if (after_return_ && !piece.empty()) {
    if (piece.front() == '\n') {
      piece.remove_prefix(1);
      if (dropped_empty_) out.append(prefix).push_back('\n');  // it was an empty line that ended in "\r\n"
    }
    after_return_ = false;
  }
  std::size_t return_at = piece.find('\r');
  std::size_t from = 0;
  for (;;) {
    const std::size_t end = find_line_end(piece, from, return_at);
    if (end == std::string_view::npos) break;
    const std::string_view line = piece.substr(from, end - from);
    const bool returned = piece[end] == '\r';
    const bool newline_follows = returned && end + 1 < piece.size() && piece[end + 1] == '\n';
    const bool dropped = returned && !newline_follows && line.empty() && partial_.empty();
    if (!dropped) {
      out.append(prefix).append(partial_).append(line).push_back('\n');
      partial_.clear();
    }
    after_return_ = returned && end + 1 == piece.size();
    dropped_empty_ = dropped;
    from = end + (newline_follows ? 2 : 1);
  }
  keep(piece.substr(from), prefix, out);
}

void LineTagger::feed_whole_lines(std::string_view piece, std::string_view prefix, std::string& out) {
  const std::size_t last = piece.find_last_of("\r\n");
  if (last == std::string_view::npos) return keep(piece, prefix, out);
  if (prefix.empty()) {
    out.append(partial_).append(piece.substr(0, last + 1));
    partial_.clear();
    return keep(piece.substr(last + 1), prefix, out);
  }
  std::size_t return_at = piece.find('\r');
  std::size_t from = 0;
  while (from <= last) {
    const std::size_t end = find_line_end(piece, from, return_at);
    out.append(prefix).append(partial_).append(piece.substr(from, end - from + 1));
    partial_.clear();
    from = end + 1;
  }
  keep(piece.substr(from), prefix, out);
}

void LineTagger::keep(std::string_view rest, std::string_view prefix, std::string& out) {
  while (partial_.size() + rest.size() > kLongestLine) {
    const std::size_t room = kLongestLine - partial_.size();
    out.append(prefix).append(partial_).append(rest.substr(0, room)).push_back('\n');
    partial_.clear();
    rest.remove_prefix(room);
  }
  partial_.append(rest);
}

void LineTagger::finish(std::string_view prefix, std::string& out) {
  after_return_ = false;
  if (partial_.empty()) return;
  out.append(prefix).append(partial_).push_back('\n');
  partial_.clear();
}

}  // namespace rondel
