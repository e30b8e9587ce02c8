// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/handshake.h"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "lib/wire.h"

namespace rondel::tcp {

namespace asio = boost::asio;
using boost::system::error_code;

Bytes encode(const LinkHello& hello) {
  return wire::Writer()
      .number(hello.to.context)
      .number(hello.to.channel)
      .number(static_cast<std::uint32_t>(hello.to.rank))
      .number(static_cast<std::uint32_t>(hello.from))
      .number(static_cast<std::uint32_t>(hello.size))
      .take();
}

Result<LinkHello> decode_link_hello(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  LinkHello hello;
  hello.to.context = reader.number<std::uint64_t>();
  hello.to.channel = reader.number<std::uint16_t>();
  hello.to.rank = static_cast<Rank>(reader.number<std::uint32_t>());
  hello.from = static_cast<Rank>(reader.number<std::uint32_t>());
  hello.size = static_cast<Rank>(reader.number<std::uint32_t>());
  if (!reader.finished()) return Status(Code::refused, "the greeting of a rank can not be read");
  return hello;
}

Greeting::Greeting(Socket socket, Handshake handshake, Done done)
    : socket_(std::move(socket)),
      limit_(socket_.get_executor()),
      handshake_(std::move(handshake)),
      done_(std::move(done)) {}

std::shared_ptr<Greeting> Greeting::start(Socket socket, Handshake handshake, std::chrono::milliseconds limit,
                                          Done done) {
  std::shared_ptr<Greeting> self(new Greeting(std::move(socket), std::move(handshake), std::move(done)));
  self->limit_.expires_after(limit);
  self->limit_.async_wait([self](error_code error) {
    if (!error) self->give_up("the peer did not finish the handshake in time");
  });
  Bytes opening = self->handshake_.opening();
  if (opening.empty())
    self->receive();
  else
    self->send(std::move(opening), false);
  return self;
}

void Greeting::give_up(const char* why) { end(Status(Code::timed_out, why)); }

void Greeting::send(Bytes bytes, bool then_end) {
  outgoing_ = std::move(bytes);
  asio::async_write(socket_, asio::buffer(outgoing_),
                    [self = shared_from_this(), then_end](error_code error, std::size_t) {
                      if (then_end) return self->end(self->failure_);
                      if (error) return self->end(Status(Code::peer_lost, "handshake: " + error.message()));
                      self->receive();
                    });
}

// Reads no byte past the handshake: what follows belongs to the link.
void Greeting::receive() {
  if (handshake_.done()) return end(Status());
  incoming_.resize(handshake_.wants());
  asio::async_read(socket_, asio::buffer(incoming_),
                   [self = shared_from_this()](error_code error, std::size_t bytes) {
                     if (error) return self->end(Status(Code::peer_lost, "handshake: " + error.message()));
                     self->take(bytes);
                   });
}

void Greeting::take(std::size_t bytes) {
  auto reply = handshake_.feed(std::span(incoming_).first(bytes));
  if (!reply.ok()) {
    failure_ = reply.status();
    // A rank of this job that turns us away is not a stranger: the rank that was meant has gone.
    if (handshake_.peer_proved() && reply.code() == Code::refused)
      failure_ = Status(Code::peer_left, reply.status().failure());
    if (handshake_.farewell().empty()) return end(failure_);
    return send(handshake_.farewell(), true);
  }
  if (reply->empty()) return receive();
  send(*std::move(reply), false);
}

void Greeting::end(Status status) {
  if (!done_) return;
  limit_.cancel();
  const Done done = std::exchange(done_, nullptr);
  if (status.ok()) return done(std::move(socket_));
  error_code ignored;
  socket_.close(ignored);
  done(std::move(status));
}

}  // namespace rondel::tcp
