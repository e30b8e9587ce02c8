// SPDX-License-Identifier: Apache-2.0
// LineTagger: turns the pieces in which one stream of one rank arrives into whole lines with a prefix. Pure:
// bytes in, bytes appended to a buffer out. One object per stream, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondel {

class LineTagger {
 public:
  /// tagged: '\n', '\r' and "\r\n" all end a line and come out as '\n' (progress bars become lines); empty
  /// pieces between '\r' are dropped. whole_lines: bytes stay as they are, but only whole lines are let
  /// through. bytes: everything is let through at once.
  enum class Mode { tagged, whole_lines, bytes };

  /// A line longer than this is cut.
  static constexpr std::size_t kLongestLine = 4U << 20U;

  explicit LineTagger(Mode mode) : mode_(mode) {}

  /// Appends each line that `piece` completes to `out`, with `prefix` in front of it.
  void feed(std::string_view piece, std::string_view prefix, std::string& out);
  /// The stream has ended: completes a last line that had no newline.
  void finish(std::string_view prefix, std::string& out);

 private:
  void feed_tagged(std::string_view piece, std::string_view prefix, std::string& out);
  void feed_whole_lines(std::string_view piece, std::string_view prefix, std::string& out);
  void keep(std::string_view rest, std::string_view prefix, std::string& out);

  Mode mode_;
  bool after_return_ = false;   // the last byte was '\r': a '\n' that follows belongs to it
  bool dropped_empty_ = false;  // and it ended nothing, so nothing was let through for it
  std::string partial_;         // the line that has not ended yet
};

}  // namespace rondel
