// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/dialer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rondel::tcp {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kConnectLimit{1000};  // one address
constexpr std::chrono::milliseconds kLongestPause{500};

tcp::endpoint to_asio(const SocketAddress& address) {
  if (!address.ip.is_v6()) {
    asio::ip::address_v4::bytes_type bytes{};
    std::copy_n(address.ip.bytes.begin(), 4, bytes.begin());
    return {asio::ip::address_v4(bytes), address.port};
  }
  asio::ip::address_v6::bytes_type bytes{};
  std::copy_n(address.ip.bytes.begin(), 16, bytes.begin());
  return {asio::ip::address_v6(bytes), address.port};
}

}  // namespace

Dialer::Dialer(asio::io_context& io, DialOrder order, const Secret& secret, const SocketPolicy& policy,
               std::chrono::milliseconds handshake_limit)
    : io_(io),
      timer_(io),
      order_(std::move(order)),
      secret_(secret),
      policy_(policy),
      handshake_limit_(handshake_limit) {}

void Dialer::start(asio::io_context& io, DialOrder order, const Secret& secret, const SocketPolicy& policy,
                   std::chrono::milliseconds handshake_limit) {
  std::shared_ptr<Dialer> self(new Dialer(io, std::move(order), secret, policy, handshake_limit));
  if (self->order_.candidates.empty()) {
    return self->finish({self->order_.hello.from,
                         {},
                         Status(Code::unavailable,
                                "it advertises no address that this "
                                "host could reach",
                                "choose a common network with RONDEL_NET")});
  }
  self->try_next();
}

void Dialer::try_next() {
  if (order_.inbox.expired()) return;
  if (next_ == order_.candidates.size()) {
    if (refusals_ == order_.candidates.size()) return finish({0, {}, Status(last_refusal_, last_failure_)});
    return pause();
  }
  socket_ = std::make_unique<Greeting::Socket>(io_);
  timer_.expires_after(kConnectLimit);
  timer_.async_wait([self = shared_from_this(), socket = socket_.get()](error_code error) {
    error_code ignored;
    if (!error && self->socket_.get() == socket) self->socket_->close(ignored);
  });
  const auto target = to_asio(order_.candidates[next_]);
  error_code not_open;  // then the connect says so
  socket_->open(target.protocol(), not_open);
  if (!not_open) close_on_exec(socket_->native_handle());
  socket_->async_connect(target, [self = shared_from_this()](error_code error) { self->connected(error); });
}

void Dialer::connected(error_code error) {
  timer_.cancel();
  if (error == asio::error::operation_aborted) {
    return failed(Code::timed_out, fmt::format("no answer within {} ms", kConnectLimit.count()));
  }
  if (resources_ran_out(error.value()))  // on this side: no other address and no later try helps
    return finish(
        {0,
         {},
         system_failure(Code::out_of_resources,
                        fmt::format("connecting to {}", order_.candidates[next_].text()), error.value())});
  if (error) return failed(Code::unavailable, error.message());
  error_code ignored;
  if (socket_->local_endpoint(ignored) == socket_->remote_endpoint(ignored)) {
    socket_->set_option(tcp::socket::linger(true, 0), ignored);  // or the port that the peer wants lingers on
    socket_->close(ignored);
    return failed(Code::unavailable, "the connection came back to itself, nobody listens there yet");
  }
  apply(policy_, socket_->native_handle());
  auto handshake = Handshake::initiator(secret_, encode(order_.hello));
  if (!handshake.ok()) return failed(handshake.code(), handshake.status().text());
  Greeting::start(
      std::move(*socket_), *std::move(handshake), handshake_limit_,
      [self = shared_from_this()](Result<Greeting::Socket> outcome) { self->greeted(std::move(outcome)); });
}

void Dialer::greeted(Result<Greeting::Socket> outcome) {
  if (!outcome.ok()) return failed(outcome.code(), outcome.status().text());
  error_code error;
  UniqueFd socket(outcome->release(error));
  if (error) return failed(Code::io_error, error.message());
  finish({0, std::move(socket), Status()});
}

void Dialer::failed(Code code, const std::string& why) {
  last_failure_ = fmt::format("connecting to {}: {}", order_.candidates[next_].text(), why);
  if (code == Code::refused || code == Code::peer_left) {
    ++refusals_;
    last_refusal_ = code == Code::refused ? Code::refused : Code::peer_lost;
  }
  ++next_;
  try_next();
}

// Before each pause the endpoint learns why there is no connection yet, so that its own deadline finds the
// reason; once, as it may not look for hours.
void Dialer::pause() {
  if (last_failure_ != told_failure_) tell({0, {}, Status(Code::timed_out, last_failure_)});
  told_failure_ = last_failure_;
  next_ = 0;
  refusals_ = 0;
  timer_.expires_after(pause_);
  pause_ = std::min(pause_ * 2, kLongestPause);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->try_next();
  });
}

void Dialer::finish(Arrival arrival) {
  socket_.reset();
  tell(std::move(arrival));
}

void Dialer::tell(Arrival arrival) {
  arrival.peer = order_.hello.to.rank;
  if (const auto inbox = order_.inbox.lock()) inbox->push(std::move(arrival));
}

}  // namespace rondel::tcp
