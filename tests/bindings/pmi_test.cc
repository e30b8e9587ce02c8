// SPDX-License-Identifier: Apache-2.0
// The client of PMI-1 against a server of the test's own, which answers from a script.
#include "bindings/c/pmi.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "lib/unique_fd.h"

namespace rondel::c {
namespace {

struct Exchange {
  std::string request;  // without its line's end
  std::string reply;    // sent as it is
};

/// Plays a script, a byte at a time, to whoever holds client(); closes after it.
class Server {
 public:
  explicit Server(std::vector<Exchange> script) {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    client_ = UniqueFd(pair[0]);
    thread_ = std::thread([script = std::move(script), server = UniqueFd(pair[1]), this] {
      for (const Exchange& exchange : script) {
        std::string line;
        char one = 0;
        while (::read(server.get(), &one, 1) == 1 && one != '\n') line += one;
        if (line != exchange.request) wrong_.push_back(line);
        for (const char byte : exchange.reply)
          if (::send(server.get(), &byte, 1, MSG_NOSIGNAL) != 1) return;
      }
    });
  }
  ~Server() {
    client_.reset();
    if (thread_.joinable()) thread_.join();
  }
  int client() const { return client_.get(); }
  /// Requests that were not as in the script, once it is over.
  std::vector<std::string> wrong() {
    thread_.join();
    return wrong_;
  }

 private:
  UniqueFd client_;
  std::vector<std::string> wrong_;
  std::thread thread_;
};

const Exchange kInit{"cmd=init pmi_version=1 pmi_subversion=1",
                     "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"};
const Exchange kName{"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1\n"};

Deadline soon() { return Deadline::in(std::chrono::seconds(5)); }

TEST_CASE("a reply's words, whatever stands between them") {
  const auto words = pmi_words("cmd=a rc=0  msg=b=c novalue =d ");
  CHECK(words == std::map<std::string, std::string>{{"cmd", "a"}, {"rc", "0"}, {"msg", "b=c"}});
}

TEST_CASE("put, barrier, get, goodbye") {
  Server server({kInit,
                 kName,
                 {"cmd=put kvsname=kvs_1 key=k value=ab12", "cmd=put_result rc=0 msg=success\n"},
                 {"cmd=barrier_in", "cmd=barrier_out\n"},
                 {"cmd=get kvsname=kvs_1 key=k", "cmd=get_result rc=0 msg=success value=ab12\n"},
                 {"cmd=finalize", "cmd=finalize_ack\n"}});
  Pmi pmi(server.client());
  REQUIRE(pmi.greet(soon()).ok());
  CHECK(pmi.put("k", "ab12", soon()).ok());
  CHECK(pmi.barrier(soon()).ok());
  const auto value = pmi.get("k", soon());
  REQUIRE(value.ok());
  CHECK(*value == "ab12");
  pmi.finalize();
  CHECK(server.wrong().empty());
}

TEST_CASE("a launcher that refuses, talks nonsense, goes or falls silent is told as such") {
  const auto failure = [](std::vector<Exchange> script, std::chrono::milliseconds patience) {
    Server server(std::move(script));
    Pmi pmi(server.client());
    return pmi.greet(Deadline::in(patience));
  };
  const std::chrono::milliseconds long_enough(5000);
  CHECK(failure({{kInit.request, "cmd=response_to_init rc=-1\n"}}, long_enough).code() == Code::refused);
  CHECK(failure({{kInit.request, "hello\n"}}, long_enough).code() == Code::refused);
  CHECK(failure({{kInit.request, std::string(20'000, 'x')}}, long_enough).code() == Code::refused);
  CHECK(failure({kInit}, long_enough).code() == Code::unavailable);
  CHECK(failure({{kInit.request, "cmd=resp"}, {"", ""}}, std::chrono::milliseconds(50)).code() ==
        Code::timed_out);
}

TEST_CASE("the secret in a value that is refused is not repeated in the error") {
  Server server({kInit, kName, {"cmd=put kvsname=kvs_1 key=k value=5ec4e7", "cmd=put_result rc=-1\n"}});
  Pmi pmi(server.client());
  REQUIRE(pmi.greet(soon()).ok());
  const Status refused = pmi.put("k", "5ec4e7", soon());
  CHECK(refused.code() == Code::refused);
  CHECK(refused.text().find("5ec4e7") == std::string::npos);
}

TEST_CASE("a descriptor that is no launcher's is refused before anything is written to it") {
  int pipe_ends[2];
  REQUIRE(::pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) == 0);
  const UniqueFd read_end(pipe_ends[0]);
  const UniqueFd write_end(pipe_ends[1]);
  const UniqueFd file(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  const int closed = ::fcntl(write_end.get(), F_DUPFD_CLOEXEC, 500);
  ::close(closed);
  for (const int descriptor : {STDOUT_FILENO, write_end.get(), file.get(), closed}) {
    if (descriptor < 0) continue;  // a file system without unnamed files
    const auto begun = Pmi::begin(descriptor, soon());
    REQUIRE_FALSE(begun.ok());
    CHECK(begun.status().text().find(fmt::format("PMI_FD is {}", descriptor)) != std::string::npos);
    CHECK(begun.status().text().find("unset PMI_FD") != std::string::npos);
  }
  char byte = 0;
  CHECK(::read(read_end.get(), &byte, 1) < 0);
  struct stat facts {};
  CHECK((!file || (::fstat(file.get(), &facts) == 0 && facts.st_size == 0)));
}

TEST_CASE("a launcher that has said goodbye to an earlier program of this process is told as such") {
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  const UniqueFd client(pair[0]);
  ::close(pair[1]);
  Pmi pmi(client.get());
  const Status gone = pmi.greet(soon());
  CHECK(gone.code() == Code::unavailable);
  CHECK(gone.text().find("one program per process") != std::string::npos);
}

TEST_CASE("what a launcher answers is shown without bytes that a terminal would act on") {
  Server server({{kInit.request, "\x1b[2J\x01garbage\n"}});
  Pmi pmi(server.client());
  const Status refused = pmi.greet(soon());
  CHECK(refused.text().find("garbage") != std::string::npos);
  CHECK(refused.text().find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace rondel::c
