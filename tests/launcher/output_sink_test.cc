// SPDX-License-Identifier: Apache-2.0
#include "launcher/output_sink.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

using rondel::OutputSink;
using rondel::UniqueFd;

namespace {

/// Two ends of a pipe or a socket pair.
struct Ends {
  explicit Ends(bool socket) {
    int fds[2];
    const int made = socket ? ::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : ::pipe(fds);
    REQUIRE(made == 0);
    reader = UniqueFd(fds[0]);
    writer = UniqueFd(fds[1]);
    ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  }
  std::string read_all() const {
    std::string text, piece(65536, '\0');
    for (ssize_t got; (got = ::read(reader.get(), piece.data(), piece.size())) > 0;)
      text.append(piece, 0, static_cast<std::size_t>(got));
    return text;
  }
  UniqueFd reader, writer;
};

}  // namespace

TEST_CASE("a slow reader never blocks the writer, and gets every byte in order") {
  for (const bool socket : {false, true}) {
    Ends ends(socket);
    OutputSink sink(ends.writer.get());
    std::string sent, received;
    for (int i = 0; i < 300'000; ++i) sent += std::to_string(i) + "\n";
    sink.buffer() = sent;
    CHECK(sink.full());
    sink.flush();  // would never return if it blocked: nobody reads yet
    REQUIRE(sink.pending() > 0);
    while (received.size() < sent.size()) {
      const std::string more = ends.read_all();
      REQUIRE_FALSE((more.empty() && sink.pending() == 0));
      received += more;
      sink.flush();
    }
    CHECK((received == sent));
    CHECK_FALSE(sink.broken());
    CHECK((::fcntl(ends.writer.get(), F_GETFL) & O_NONBLOCK) == 0);  // the shared open file is as it was
  }
}

TEST_CASE("a reader that has gone is an error, not a signal") {
  ::signal(SIGPIPE, SIG_IGN);
  for (const bool socket : {false, true}) {
    Ends ends(socket);
    OutputSink sink(ends.writer.get());
    ends.reader.reset();
    sink.buffer() = "text";
    sink.flush();
    CHECK(sink.error() == EPIPE);
    CHECK(sink.pending() == 0);
  }
}

TEST_CASE("a regular file is written where the shared offset stands") {
  char name[] = "output_sink_test_XXXXXX";
  const UniqueFd file(::mkstemp(name));
  REQUIRE(file);
  ::unlink(name);
  REQUIRE(::write(file.get(), "one ", 4) == 4);
  OutputSink sink(file.get());
  sink.buffer() = "two";
  sink.flush();
  CHECK(::lseek(file.get(), 0, SEEK_CUR) == 7);
  CHECK_FALSE(sink.can_wait());
}

TEST_CASE("a full device is reported") {
  const UniqueFd device(::open("/dev/full", O_WRONLY));
  REQUIRE(device);
  OutputSink sink(device.get());
  sink.buffer() = "x";
  sink.flush();
  CHECK(sink.error() == ENOSPC);
}

TEST_CASE("the same destination is seen through two descriptors") {
  Ends ends(false), others(false);
  const UniqueFd copy(::dup(ends.writer.get()));
  CHECK(rondel::same_destination(ends.writer.get(), copy.get()));
  CHECK_FALSE(rondel::same_destination(ends.writer.get(), others.writer.get()));
}
