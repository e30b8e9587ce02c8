// SPDX-License-Identifier: Apache-2.0
// LogRelay: carries what the ranks write to the launcher's own output: whole lines, tagged with rank and
// stream, the order of each stream kept, and to one file per stream when asked. Memory is bounded: while the
// reader of our output is slow, the ranks' pipes are left unread. Owned by the job, runs in its loop; one
// thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/event_loop.h"
#include "launcher/line_tagger.h"
#include "launcher/output_sink.h"
#include "lib/status.h"
#include "lib/types.h"
#include "lib/unique_fd.h"

namespace rondel {

struct LogRelayOptions {
  Rank ranks = 1;
  bool tag = true;
  bool timestamp = false;
  std::string directory;  ///< for rank.N/stdout and rank.N/stderr; empty: no files
};

class LogRelay {
 public:
  enum class Stream { standard_output, standard_error };

  LogRelay(EventLoop& loop, LogRelayOptions options);
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;
  ~LogRelay();

  /// Takes over one stream of one rank: the reading end of a non-blocking pipe.
  Status add(Rank rank, Stream stream, UniqueFd pipe);
  /// Puts a line of the launcher's own among the others on standard error.
  void say(std::string_view line);
  /// After each round of the loop: writes what goes, and holds or releases the ranks' streams.
  void settle();

  /// Streams that have not ended.
  bool streams_open() const { return open_streams_ > 0; }
  /// Ends streams that somebody outside the job holds open: nothing has come for `silence`, and nothing is
  /// held back.
  void close_silent_streams(std::chrono::milliseconds silence);
  /// Bytes not yet written.
  bool pending() const;
  /// Why standard output takes no more: EPIPE, ENOSPC, ...; 0 while it does.
  int output_error() const { return sinks_.front()->error(); }
  /// The last lines that a rank wrote to standard error.
  std::vector<std::string> last_error_lines(Rank rank, std::size_t count) const;

 private:
  struct Source;

  void read_from(Source& source);
  void deliver(Source& source, std::string_view piece);
  void end(Source& source);
  std::string prefix_of(const Source& source) const;
  void write_file(Source& source, std::string_view piece);
  void settle(OutputSink& sink);
  void watch_for_room(OutputSink& sink, bool wanted);
  OutputSink& sink_for(Stream stream) const;

  EventLoop& loop_;
  LogRelayOptions options_;
  std::vector<std::unique_ptr<OutputSink>> sinks_;  // one, when both streams lead to the same place
  std::vector<const OutputSink*> watched_;          // those whose room the loop waits for
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<char> read_buffer_;
  std::size_t open_streams_ = 0;
  std::chrono::steady_clock::time_point last_read_ = std::chrono::steady_clock::now();
};

}  // namespace rondel
