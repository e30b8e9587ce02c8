// SPDX-License-Identifier: Apache-2.0
// LogRelay: carries what the ranks write to the launcher's own output: whole lines, tagged with rank and
// stream, the order of each stream kept, and to files of each rank when asked. Memory is bounded by what its
// users feed while has_room() says no. Owned by the job, runs in its loop; one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/agent_protocol.h"
#include "launcher/event_loop.h"
#include "launcher/line_tagger.h"
#include "launcher/output_path.h"
#include "launcher/output_sink.h"
#include "lib/status.h"
#include "lib/types.h"
#include "lib/unique_fd.h"

namespace rondel {

struct LogRelayOptions {
  Rank ranks = 1;
  bool tag = true;
  bool timestamp = false;
  std::string files;  ///< --output-filename: see output_path(); empty: no files
};

class LogRelay {
 public:
  using Stream = agent::Stream;

  LogRelay(EventLoop& loop, LogRelayOptions options);
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;
  ~LogRelay();

  /// Makes the streams of one rank known, and opens its files.
  Status add(const OutputNames& names);
  /// What has arrived of a stream that is known.
  void feed(Rank rank, Stream stream, std::string_view piece);
  /// The stream has ended; more than once is fine.
  void end(Rank rank, Stream stream);
  /// Whether the reader of our output keeps up.
  bool has_room(Stream stream) const { return sink_for(stream).pending() < OutputSink::kFullBytes / 2; }
  /// Puts a line of the launcher's own among the others on standard error.
  void say(std::string_view line);
  /// After each round of the loop: writes what goes.
  void settle();

  /// Bytes not yet written.
  bool pending() const;
  /// Why standard output takes no more: EPIPE, ENOSPC, ...; 0 while it does.
  int output_error() const { return sinks_.front()->error(); }
  /// A file of --output-filename lacks something, which has been said.
  bool lost_in_files() const { return lost_in_files_; }
  /// The last lines that a rank wrote to standard error.
  std::vector<std::string> last_error_lines(Rank rank, std::size_t count) const;

 private:
  struct Source;

  Source* find(Rank rank, Stream stream);
  std::string prefix_of(const Source& source) const;
  void write_file(Source& source, std::string_view piece);
  void watch_for_room(OutputSink& sink, bool wanted);
  OutputSink& sink_for(Stream stream) const;

  EventLoop& loop_;
  LogRelayOptions options_;
  std::vector<std::unique_ptr<OutputSink>> sinks_;  // one, when both streams lead to the same place
  std::vector<const OutputSink*> watched_;          // those whose room the loop waits for
  std::map<std::pair<Rank, Stream>, std::unique_ptr<Source>> sources_;
  bool lost_in_files_ = false;
};

}  // namespace rondel
