// SPDX-License-Identifier: Apache-2.0
#include "launcher/log_relay.h"
#include "launcher/visible_text.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

namespace rondel {
namespace {

constexpr std::size_t kTailBytes = 8 * 1024;  // of standard error, kept for the report

std::string_view name_of(LogRelay::Stream stream) {
  return stream == LogRelay::Stream::standard_output ? "stdout" : "stderr";
}

/// Local time with milliseconds: "2024-05-01T12:00:00.250 ".
std::string timestamp() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03} ", parts, now.tv_nsec / 1'000'000);
}

LineTagger::Mode mode_of(const LogRelayOptions& options) {
  if (options.tag) return LineTagger::Mode::tagged;
  return options.ranks == 1 && !options.timestamp ? LineTagger::Mode::bytes : LineTagger::Mode::whole_lines;
}

Result<UniqueFd> open_file(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return system_failure(Code::unavailable, "creating " + folder.string(), error.value());
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return system_failure(Code::unavailable, "opening " + path, errno);
  return file;
}

}  // namespace

struct LogRelay::Source {
  UniqueFd file;
  std::string path;                        // of the file
  std::optional<LineTagger> file_lines{};  // where both streams share it: neither cuts the other's
  OutputSink* sink;
  LineTagger tagger;
  std::string tag;
  std::string tail{};
  bool ended = false;
};

LogRelay::LogRelay(EventLoop& loop, LogRelayOptions options) : loop_(loop), options_(std::move(options)) {
  sinks_.push_back(std::make_unique<OutputSink>(STDOUT_FILENO));
  if (!same_destination(STDOUT_FILENO, STDERR_FILENO))
    sinks_.push_back(std::make_unique<OutputSink>(STDERR_FILENO));
}

LogRelay::~LogRelay() {
  for (const OutputSink* sink : watched_) loop_.forget(sink->fd());
}

OutputSink& LogRelay::sink_for(Stream stream) const {
  return stream == Stream::standard_output ? *sinks_.front() : *sinks_.back();
}

Status LogRelay::add(const OutputNames& names) {
  int first = -1;  // of the two files, or the one for both
  for (const Stream stream : {Stream::standard_output, Stream::standard_error}) {
    UniqueFd file;
    const std::string path = options_.files.empty() ? "" : output_path(options_.files, names, stream);
    if (first >= 0 && is_output_pattern(options_.files)) {
      file = UniqueFd(::fcntl(first, F_DUPFD_CLOEXEC, 3));
    } else if (!path.empty()) {
      auto opened = open_file(path);
      if (!opened.ok()) return std::move(opened).status();
      file = *std::move(opened);
      first = file.get();
    }
    const std::string tag =
        options_.tag ? fmt::format("[{}]<{}>: ", names.rank, name_of(stream)) : std::string();
    auto source = std::make_unique<Source>(Source{.file = std::move(file),
                                                  .path = path,
                                                  .sink = &sink_for(stream),
                                                  .tagger = LineTagger(mode_of(options_)),
                                                  .tag = tag});
    if (is_output_pattern(options_.files)) source->file_lines.emplace(LineTagger::Mode::whole_lines);
    sources_[{names.rank, stream}] = std::move(source);
  }
  return {};
}

LogRelay::Source* LogRelay::find(Rank rank, Stream stream) {
  const auto found = sources_.find({rank, stream});
  return found == sources_.end() || found->second->ended ? nullptr : found->second.get();
}

void LogRelay::say(std::string_view line) {
  sink_for(Stream::standard_error).buffer().append("rondelrun: ").append(one_line(line)).push_back('\n');
}

std::string LogRelay::prefix_of(const Source& source) const {
  return options_.timestamp ? timestamp() + source.tag : source.tag;
}

void LogRelay::feed(Rank rank, Stream stream, std::string_view piece) {
  Source* const source = find(rank, stream);
  if (source == nullptr) return;
  if (source->file) {
    std::string lines;
    if (source->file_lines) source->file_lines->feed(piece, {}, lines);
    write_file(*source, source->file_lines ? lines : piece);
  }
  if (stream == Stream::standard_error) {
    source->tail.append(piece.substr(piece.size() - std::min(piece.size(), kTailBytes)));
    if (source->tail.size() > kTailBytes) source->tail.erase(0, source->tail.size() - kTailBytes);
  }
  if (source->sink->broken()) return;
  source->tagger.feed(piece, prefix_of(*source), source->sink->buffer());
  if (source->sink->full()) source->sink->flush();
}

void LogRelay::end(Rank rank, Stream stream) {
  Source* const source = find(rank, stream);
  if (source == nullptr) return;
  if (!source->sink->broken()) source->tagger.finish(prefix_of(*source), source->sink->buffer());
  if (source->file && source->file_lines) {
    std::string rest;
    source->file_lines->finish({}, rest);
    write_file(*source, rest);
  }
  source->file.reset();
  source->ended = true;
}

void LogRelay::write_file(Source& source, std::string_view piece) {
  while (source.file && !piece.empty()) {
    const ssize_t wrote = ::write(source.file.get(), piece.data(), piece.size());
    if (wrote >= 0) {
      piece.remove_prefix(static_cast<std::size_t>(wrote));
    } else if (errno != EINTR) {
      say(system_failure(Code::io_error, "writing " + source.path, errno, "the file is incomplete").text());
      source.file.reset();
      lost_in_files_ = true;
    }
  }
}

void LogRelay::settle() {
  for (const auto& sink : sinks_) {
    sink->flush();
    watch_for_room(*sink, sink->pending() > 0);
  }
}

void LogRelay::watch_for_room(OutputSink& sink, bool wanted) {
  const auto found = std::find(watched_.begin(), watched_.end(), &sink);
  const bool watched = found != watched_.end();
  if (wanted && !watched && sink.can_wait()) {
    if (loop_.watch(sink.fd(), EPOLLOUT, [&sink] { sink.flush(); }).ok()) watched_.push_back(&sink);
  } else if (!wanted && watched) {
    loop_.forget(sink.fd());
    watched_.erase(found);
  }
}

bool LogRelay::pending() const {
  return std::any_of(sinks_.begin(), sinks_.end(), [](const auto& sink) { return sink->pending() > 0; });
}

std::vector<std::string> LogRelay::last_error_lines(Rank rank, std::size_t count) const {
  const auto source = sources_.find({rank, Stream::standard_error});
  std::vector<std::string> lines;
  if (source == sources_.end()) return lines;
  std::string_view rest = source->second->tail;
  while (!rest.empty() && lines.size() < count) {
    while (!rest.empty() && (rest.back() == '\n' || rest.back() == '\r')) rest.remove_suffix(1);
    if (rest.empty()) break;
    const auto start = rest.find_last_of("\r\n");
    lines.emplace_back(rest.substr(start == std::string_view::npos ? 0 : start + 1));
    rest = start == std::string_view::npos ? std::string_view() : rest.substr(0, start);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace rondel
