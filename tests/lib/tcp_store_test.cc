// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <thread>
#include <vector>

#include "lib/frame.h"
#include "lib/host_identity.h"
#include "lib/store/dial.h"
#include "lib/store/protocol.h"
#include "lib/store/socket.h"
#include "lib/store/tcp_client.h"
#include "lib/store/tcp_server.h"
#include "lib/unique_fd.h"
#include "tests/lib/store_suite.h"

namespace rondel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Secret test_secret() {
  static const Secret secret = *Secret::generate();
  return secret;
}

std::unique_ptr<TcpServer> start_server(TcpServerOptions options = {}) {
  auto server = TcpServer::start(options, test_secret());
  if (!server.ok()) FAIL(server.status().text());
  return std::move(*server);
}

std::unique_ptr<Store> open_client(const TcpServer& server) {
  auto store = connect_tcp_store(server.address(), test_secret(), Deadline::in(seconds(20)));
  if (!store.ok()) FAIL(store.status().text());
  return std::move(*store);
}

/// A connection without any handshake, as a stranger makes it.
UniqueFd connect_raw(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) return {};
  return fd;
}

/// Whether the server ends the connection before the deadline, whatever it says before.
bool is_closed_by(int fd, Deadline deadline) {
  std::array<char, 4096> ignored;
  while (!deadline.passed()) {
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, deadline.left_ms()) <= 0) continue;
    if (::recv(fd, ignored.data(), ignored.size(), 0) <= 0) return true;
  }
  return false;
}

TEST_CASE("the TCP store is a store") {
  const auto server = start_server();
  test::run_store_suite([&server] { return open_client(*server); });
}

TEST_CASE("the TCP store works over IPv6") {
  TcpServerOptions options;
  options.bind_address = "::1";
  const auto server = TcpServer::start(options, test_secret());
  if (!server.ok()) {
    WARN("not checked: " + server.status().text());
    return;
  }
  CHECK((*server)->address() == "[::1]:" + std::to_string((*server)->port()));
  const auto client = open_client(**server);
  REQUIRE(client->set("key", {}).ok());
  CHECK(client->get("key", Deadline::in(seconds(5))).ok());
}

TEST_CASE("a client with another secret is refused at once, in words") {
  const auto server = start_server();
  const auto before = Deadline::Clock::now();
  const auto store = connect_tcp_store(server->address(), *Secret::generate(), Deadline::in(seconds(30)));
  CHECK(store.code() == Code::refused);
  CHECK(store.status().text().find("secret") != std::string::npos);
  CHECK(Deadline::Clock::now() - before < seconds(5));
}

TEST_CASE("a connection for something else is refused by the server") {
  const auto server = start_server();
  const auto dialled = store::dial(server->address(), test_secret(), "tcp link", Deadline::in(seconds(20)));
  CHECK(dialled.code() == Code::refused);
  CHECK(dialled.status().text().find("job's server") != std::string::npos);
}

TEST_CASE("a server that is not there yet is waited for") {
  std::uint16_t port = 0;
  {
    const auto first = start_server();
    port = first->port();
  }
  std::unique_ptr<TcpServer> server;
  std::thread later([&server, port] {
    TcpServerOptions options;
    options.port = port;
    auto started = TcpServer::start(options, test_secret());
    if (started.ok()) server = std::move(*started);
  });
  const auto store =
      connect_tcp_store("127.0.0.1:" + std::to_string(port), test_secret(), Deadline::in(seconds(20)));
  later.join();
  REQUIRE(server != nullptr);
  CHECK(store.ok());
}

TEST_CASE("an address where nobody listens is named with what the last try met") {
  std::uint16_t port = 0;
  {
    const auto gone = start_server();
    port = gone->port();
  }
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const auto store = connect_tcp_store(address, test_secret(), Deadline::in(milliseconds(50)));
  CHECK(store.code() == Code::timed_out);
  CHECK(store.status().text().find(address) != std::string::npos);
  CHECK(store.status().text().find("connection refused") != std::string::npos);
}

TEST_CASE("a listener that never answers is told from one that refuses") {
  const auto silent = store::listen_on("127.0.0.1", 0);
  REQUIRE(silent.ok());
  const auto where = store::describe(*store::local_address(silent->get()));
  const auto store = connect_tcp_store(where, test_secret(), Deadline::in(milliseconds(50)));
  CHECK(store.code() == Code::timed_out);
  CHECK(store.status().text().find("nothing was received") != std::string::npos);
}

TEST_CASE("addresses that are none, and names that nobody knows, are said so") {
  for (const char* address : {"", "host", "host:", ":1", "host:0", "host:65536", "host:1x", "::1:80", "[::1]",
                              "[::1]80", "[]:80", "host:123456"})
    CHECK(connect_tcp_store(address, test_secret(), Deadline::in(seconds(5))).code() ==
          Code::invalid_argument);
  const auto unknown =
      connect_tcp_store("no-such-host.invalid:80", test_secret(), Deadline::in(milliseconds(20)));
  CHECK(unknown.code() == Code::timed_out);
  CHECK(unknown.status().text().find("can not resolve the name 'no-such-host.invalid'") != std::string::npos);
  CHECK(unknown.status().text().find(host_name()) != std::string::npos);  // who can not
}

TEST_CASE("a busy port is named with the process that holds it") {
  const auto holder = start_server();
  TcpServerOptions options;
  options.port = holder->port();
  const auto second = TcpServer::start(options, test_secret());
  CHECK(second.code() == Code::unavailable);
  const std::string text = second.status().text();
  CHECK(text.find("127.0.0.1:" + std::to_string(holder->port())) != std::string::npos);
  CHECK(text.find("process " + std::to_string(::getpid()) + " (lib-test") != std::string::npos);
}

TEST_CASE("the server listens on the chosen address only") {
  const auto server = start_server();
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in other{};
  other.sin_family = AF_INET;
  other.sin_port = htons(server->port());
  other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);  // 127.0.0.2 is this host as well
  CHECK(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&other), sizeof(other)) != 0);
  CHECK(TcpServer::start({.bind_address = "localhost"}, test_secret()).code() == Code::invalid_argument);
  CHECK(TcpServer::start({.bind_address = "192.0.2.1"}, test_secret()).code() == Code::unavailable);
}

TEST_CASE("a name with several addresses is tried until one answers") {
  const auto server = start_server();  // on 127.0.0.1; localhost may be ::1 first
  const auto store = connect_tcp_store("localhost:" + std::to_string(server->port()), test_secret(),
                                       Deadline::in(seconds(20)));
  CHECK(store.ok());
}

TEST_CASE("a crowd of strangers is a line in the log, not a crowd of lines") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    const auto server = TcpServer::start({}, test_secret());
    for (int i = 0; i < 100; ++i) {
      const UniqueFd stranger = connect_raw((*server)->port());
      static_cast<void>(::send(stranger.get(), "GET / HTTP/1.0\r\n", 16, MSG_NOSIGNAL));
      if (!is_closed_by(stranger.get(), Deadline::in(seconds(10)))) ::_exit(1);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t got = 0; (got = ::read(ends[0], piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const auto lines = std::count(text.begin(), text.end(), '\n');
  CHECK(lines >= 1);
  CHECK(lines <= 11);  // one a second, for as long as the strangers had
  CHECK(text.find("not a Rondel peer") != std::string::npos);
}

TEST_CASE("strangers are closed and cost the others nothing") {
  TcpServerOptions options;
  options.handshake_timeout = milliseconds(200);
  const auto server = start_server(options);
  const auto client = open_client(*server);
  const std::vector<std::string> firsts{"GET / HTTP/1.0\r\n\r\n", std::string(1 << 20, '\0'), "\xf5",
                                        std::string("\xf5RDL\1\0\1\0\xff\xff\xff\x7f", 12), ""};
  std::vector<UniqueFd> strangers;
  for (const std::string& first : firsts) {
    strangers.push_back(connect_raw(server->port()));
    REQUIRE(strangers.back());
    static_cast<void>(::send(strangers.back().get(), first.data(), first.size(), MSG_NOSIGNAL));
  }
  for (int i = 0; i < 100; ++i) strangers.push_back(connect_raw(server->port()));
  CHECK(client->set("key", test::bytes_of("value")).ok());
  for (const UniqueFd& stranger : strangers) CHECK(is_closed_by(stranger.get(), Deadline::in(seconds(10))));
  CHECK(test::text_of(*client->get("key", Deadline::in(seconds(5)))) == "value");
}

TEST_CASE("hundreds of silent strangers do not keep a client out") {
  TcpServerOptions options;
  options.handshake_timeout = seconds(30);
  const auto server = start_server(options);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 600; ++i) {
    strangers.push_back(connect_raw(server->port()));
    REQUIRE(strangers.back());
  }
  const auto began = Deadline::Clock::now();
  CHECK(open_client(*server)->set("key", test::bytes_of("value")).ok());
  CHECK(Deadline::Clock::now() - began < seconds(2));
  CHECK(is_closed_by(strangers.front().get(), Deadline::in(seconds(10))));  // the oldest make room
}

TEST_CASE("an authenticated client that sends nonsense is closed, and only it") {
  const auto server = start_server();
  const auto client = open_client(*server);
  const Bytes huge{std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0x7f}};
  for (const char* role : {store::kStoreRole, store::kMemberRole})
    for (const Bytes& nonsense : {framed(test::bytes_of("nonsense")), framed({}), huge}) {
      const auto dialled = store::dial(server->address(), test_secret(), role, Deadline::in(seconds(20)));
      REQUIRE(dialled.ok());
      REQUIRE(store::send_all(dialled->fd.get(), nonsense, Deadline::in(seconds(5))).ok());
      CHECK(is_closed_by(dialled->fd.get(), Deadline::in(seconds(10))));
    }
  CHECK(client->set("key", {}).ok());
}

TEST_CASE("a server that ends while a client waits fails the wait at once and names the server") {
  auto server = start_server();
  const std::string address = server->address();
  const auto client = open_client(*server);
  Result<Bytes> value = Status(Code::internal, "not yet");
  std::thread waiter([&client, &value] { value = client->get("never", Deadline::in(seconds(30))); });
  const auto before = Deadline::Clock::now();
  server.reset();
  waiter.join();
  CHECK(value.code() == Code::unavailable);
  CHECK(value.status().text().find("lost the store at " + address) != std::string::npos);
  CHECK(client->set("key", {}).code() == Code::unavailable);
  CHECK(Deadline::Clock::now() - before < seconds(5));
}

TEST_CASE("calls to a server that is stopped end at their deadlines and name its keeper") {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    TcpServerOptions options;
    options.holder_rank = 3;
    options.holder_host = "noded";
    const auto server = TcpServer::start(options, test_secret());
    const std::uint16_t port = server.ok() ? (*server)->port() : 0;
    static_cast<void>(!::write(pipe[1], &port, sizeof port));
    for (;;) ::pause();
  }
  std::uint16_t port = 0;
  REQUIRE(::read(pipe[0], &port, sizeof port) == static_cast<ssize_t>(sizeof port));
  const auto store =
      connect_tcp_store("127.0.0.1:" + std::to_string(port), test_secret(), Deadline::in(seconds(20)));
  REQUIRE(store.ok());
  ::kill(child, SIGSTOP);
  REQUIRE(::waitpid(child, nullptr, WUNTRACED) == child);  // all its threads have stopped
  const auto soon = [] { return Deadline::in(milliseconds(50)); };
  const std::vector<std::string> keys{"key"};
  const auto before = Deadline::Clock::now();
  for (const Status& status :
       {(*store)->set("key", {}, soon()), (*store)->add("sum", 1, soon()).status(),
        (*store)->get("other", soon()).status(), (*store)->missing(keys, soon()).status()}) {
    CHECK(status.code() == Code::timed_out);
    CHECK(status.failure().peer == 3);
    CHECK_THAT(status.text(), Catch::Contains("kept by rank 3 (host noded), has not answered for"));
  }
  CHECK(Deadline::Clock::now() - before < seconds(3));
  ::kill(child, SIGCONT);
  CHECK((*store)->get("key", Deadline::in(seconds(20))).ok());  // what was set in vain has arrived
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int end : pipe) ::close(end);
}

TEST_CASE("two hundred clients meet through one server") {
  const auto server = start_server();
  constexpr int kClients = 200;
  constexpr int kThreads = 8;
  std::atomic<int> met{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&server, &met, t] {
      std::vector<std::unique_ptr<Store>> mine;
      std::vector<std::string> keys;
      for (int c = 0; c < kClients; ++c) keys.push_back("rank/" + std::to_string(c));
      for (int c = t; c < kClients; c += kThreads) {
        auto store = connect_tcp_store(server->address(), test_secret(), Deadline::in(seconds(30)));
        if (store.ok() && (*store)->set(keys[static_cast<std::size_t>(c)], {}).ok())
          mine.push_back(std::move(*store));
      }
      for (const auto& store : mine)
        if (store->wait(keys, Deadline::in(seconds(30))).ok()) ++met;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(met == kClients);
}

TEST_CASE("a server out of descriptors neither dies nor spins, and goes on when there are some") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit few{24, 24};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) ::_exit(2);
    auto server = TcpServer::start({}, test_secret());
    if (!server.ok()) ::_exit(3);
    std::vector<UniqueFd> strangers;
    while (UniqueFd fd = connect_raw((*server)->port())) strangers.push_back(std::move(fd));
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    const auto until = Deadline::in(milliseconds(300));
    while (!until.passed()) ::poll(nullptr, 0, until.left_ms());
    ::getrusage(RUSAGE_SELF, &after);
    const auto spent_us = [](const rusage& u) {
      return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1'000'000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
    };
    if (spent_us(after) - spent_us(before) > 100'000) ::_exit(4);
    strangers.clear();
    const auto store = connect_tcp_store((*server)->address(), test_secret(), Deadline::in(seconds(20)));
    ::_exit(store.ok() && (*store)->set("key", {}).ok() ? 0 : 5);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a client that left is forgotten, and a write to it raises no signal") {
  const auto server = start_server();
  const auto setter = open_client(*server);
  for (int i = 0; i < 20; ++i) {
    const auto dialled =
        store::dial(server->address(), test_secret(), store::kStoreRole, Deadline::in(seconds(20)));
    REQUIRE(dialled.ok());
    const store::Request get{1, store::GetRequest{"late/" + std::to_string(i)}};
    REQUIRE(store::send_all(dialled->fd.get(), framed(store::encode(get)), Deadline::in(seconds(5))).ok());
  }
  for (int i = 0; i < 20; ++i) CHECK(setter->set("late/" + std::to_string(i), Bytes(100'000)).ok());
}

}  // namespace
}  // namespace rondel
