// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/listener.h"

#include <fmt/format.h>

#include <bit>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "lib/log.h"
#include "lib/service_thread.h"

namespace rondel::tcp {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kMaxGreetings = 512;  // strangers at one time; beyond it the oldest goes
constexpr int kBacklog = 1024;

}  // namespace

struct Listener::Body {
  struct Expected {
    Rank size;
    std::shared_ptr<Inbox> inbox;
  };

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> stay{asio::make_work_guard(io)};
  std::optional<Secret> secret;
  ListenerOptions options;
  std::vector<SocketAddress> sockets;
  std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
  std::map<EndpointKey, Expected> expected;  // listener thread only
  std::deque<std::weak_ptr<Greeting>> greetings;
  std::uint64_t strangers = 0;
  std::uint64_t pauses = 0;
  std::thread thread;

  Status listen_on(const IpAddress& ip);
  void accept_next(tcp::acceptor& acceptor);
  void accepted(tcp::acceptor& acceptor, error_code error, Greeting::Socket socket);
  void pause(tcp::acceptor& acceptor, error_code why);
  void greet(Greeting::Socket socket);
  Status judge(std::span<const std::byte> payload, LinkHello& hello) const;
  void welcome(const LinkHello& hello, Greeting::Socket socket);
  void turn_away(const std::string& from, const Status& why);
};

Status Listener::Body::listen_on(const IpAddress& ip) {
  error_code error;
  const auto address = asio::ip::make_address(ip.text(), error);
  auto acceptor = std::make_unique<tcp::acceptor>(io);
  for (std::uint32_t port = options.first_port; port <= options.last_port; ++port) {
    const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(port));
    acceptor->open(endpoint.protocol(), error);
    if (!error) close_on_exec(acceptor->native_handle());
    if (!error && ip.is_v6()) acceptor->set_option(asio::ip::v6_only(true), error);
    if (!error && port != 0) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor->bind(endpoint, error);
    if (!error) acceptor->listen(kBacklog, error);
    if (!error) break;
    error_code ignored;
    acceptor->close(ignored);
    if (error != asio::error::address_in_use) break;
  }
  if (error)
    return system_failure(
        Code::unavailable,
        fmt::format("can not listen on {} (ports {}-{})", ip.text(), options.first_port, options.last_port),
        error.value(),
        resources_ran_out(error.value())
            ? ""
            : "choose other ports with RONDEL_PORTS or addresses with RONDEL_NET");
  sockets.push_back({ip, acceptor->local_endpoint(error).port()});
  acceptors.push_back(std::move(acceptor));
  return {};
}

void Listener::Body::accept_next(tcp::acceptor& acceptor) {
  acceptor.async_accept([this, &acceptor](error_code error, Greeting::Socket socket) {
    accepted(acceptor, error, std::move(socket));
  });
}

void Listener::Body::accepted(tcp::acceptor& acceptor, error_code error, Greeting::Socket socket) {
  if (error == asio::error::operation_aborted) return;
  if (resources_ran_out(error.value())) return pause(acceptor, error);
  accept_next(acceptor);  // first: memory may run out while this one is greeted
  if (!error) greet(std::move(socket));
}

void Listener::Body::pause(tcp::acceptor& acceptor, error_code why) {
  ++pauses;
  log(std::has_single_bit(pauses) ? LogLevel::warn : LogLevel::debug, "{} ({} times so far)",
      system_failure(Code::out_of_resources, "can not accept a connection", why.value()).text(), pauses);
  const auto breather = std::make_shared<asio::steady_timer>(io, std::chrono::milliseconds(100));
  breather->async_wait([this, &acceptor, breather](error_code stopped) {
    if (!stopped) accept_next(acceptor);
  });
}

void Listener::Body::greet(Greeting::Socket socket) {
  error_code ignored;
  const std::string from = fmt::format("{}:{}", socket.remote_endpoint(ignored).address().to_string(ignored),
                                       socket.remote_endpoint(ignored).port());
  close_on_exec(socket.native_handle());
  apply(options.policy, socket.native_handle());
  const auto hello = std::make_shared<LinkHello>();
  auto handshake = Handshake::responder(
      *secret, {}, [this, hello](std::span<const std::byte> payload) { return judge(payload, *hello); });
  if (!handshake.ok()) return turn_away(from, handshake.status());
  while (!greetings.empty() && (greetings.front().expired() || greetings.size() >= kMaxGreetings)) {
    if (const auto oldest = greetings.front().lock()) oldest->give_up("too many strangers at once");
    greetings.pop_front();
  }
  greetings.push_back(Greeting::start(std::move(socket), *std::move(handshake), options.handshake_limit,
                                      [this, hello, from](Result<Greeting::Socket> outcome) {
                                        if (outcome.ok())
                                          welcome(*hello, *std::move(outcome));
                                        else
                                          turn_away(from, outcome.status());
                                      }));
}

Status Listener::Body::judge(std::span<const std::byte> payload, LinkHello& hello) const {
  auto decoded = decode_link_hello(payload);
  RONDEL_TRY(decoded);
  hello = *decoded;
  const auto wanted = expected.find(hello.to);
  if (wanted == expected.end()) {
    return Status(Code::refused,
                  fmt::format("rank {} of this communicator is not here (it left, or this is another "
                              "host with the same address)",
                              hello.to.rank));
  }
  if (hello.size != wanted->second.size || hello.from < 0 || hello.from >= hello.size) {
    return Status(Code::refused, fmt::format("rank {} of {} is no member of a communicator of {} ranks",
                                             hello.from, hello.size, wanted->second.size));
  }
  return {};
}

void Listener::Body::welcome(const LinkHello& hello, Greeting::Socket socket) {
  const auto wanted = expected.find(hello.to);
  if (wanted == expected.end()) return;
  error_code error;
  UniqueFd fd(socket.release(error));
  if (!error) wanted->second.inbox->push({hello.from, std::move(fd), Status()});
}

// One line for a stranger, and not one for each of thousands.
void Listener::Body::turn_away(const std::string& from, const Status& why) {
  ++strangers;
  log(std::has_single_bit(strangers) ? LogLevel::warn : LogLevel::debug,
      "closed a connection from {}: {} ({} so far)", from, why.text(), strangers);
}

Listener::Listener() : body_(std::make_unique<Body>()) {}

Result<std::shared_ptr<Listener>> Listener::start(ListenerOptions options, const Secret& secret) try {
  std::shared_ptr<Listener> listener(new Listener());
  Body& body = *listener->body_;
  body.options = std::move(options);
  body.secret = secret;
  for (const IpAddress& ip : body.options.addresses) RONDEL_TRY(body.listen_on(ip));
  for (const auto& acceptor : body.acceptors) body.accept_next(*acceptor);
  auto thread = start_service("the TCP listener", [&body] { body.io.run(); });
  RONDEL_TRY(thread);
  body.thread = *std::move(thread);
  return listener;
} catch (const boost::system::system_error& error) {  // Asio's own descriptors
  return system_failure(Code::out_of_resources, "can not start the TCP listener", error.code().value());
}

Listener::~Listener() {
  body_->stay.reset();
  body_->io.stop();
  if (body_->thread.joinable()) body_->thread.join();
}

const std::vector<SocketAddress>& Listener::sockets() const { return body_->sockets; }

void Listener::expect(const EndpointKey& key, Rank size, std::shared_ptr<Inbox> inbox) {
  std::promise<void> known;
  asio::post(body_->io, [body = body_.get(), key, size, &inbox, &known] {
    body->expected[key] = {size, std::move(inbox)};
    known.set_value();
  });
  known.get_future().wait();
}

void Listener::forget(const EndpointKey& key) {
  asio::post(body_->io, [body = body_.get(), key] { body->expected.erase(key); });
}

void Listener::dial(DialOrder order) {
  asio::post(body_->io, [body = body_.get(), order = std::move(order)]() mutable {
    Dialer::start(body->io, std::move(order), *body->secret, body->options.policy,
                  body->options.handshake_limit);
  });
}

}  // namespace rondel::tcp
