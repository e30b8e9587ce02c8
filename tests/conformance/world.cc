// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lib/check.h"
#include "tests/support/seed.h"

namespace rondel::conformance {

namespace {

std::unique_ptr<Registration> register_bytes(Endpoint& endpoint, Bytes& content) {
  auto region = endpoint.register_memory({content.data(), content.size(), MemoryKind::host});
  check(region.ok(), "host memory can be registered");
  return std::move(*region);
}

}  // namespace

Buffer::Buffer(Endpoint& endpoint, std::size_t bytes, std::byte filler)
    : Buffer(endpoint, Bytes(bytes, filler)) {}

Buffer::Buffer(Endpoint& endpoint, Bytes content)
    : content_(std::move(content)), region_(register_bytes(endpoint, content_)) {}

Bytes message(Rank from, Rank to, std::uint64_t number, std::size_t bytes) {
  test::Random random(number << 16 ^ static_cast<std::uint64_t>(from) << 8 ^ static_cast<std::uint64_t>(to));
  Bytes content(bytes);
  for (std::size_t done = 0; done < bytes; done += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(&content[done], &word, std::min(sizeof word, bytes - done));
  }
  return content;
}

Completion& Member::armed(std::uint32_t works) {
  Completion& done = completions_.emplace_back();
  done.arm(works);
  return done;
}

Status Member::send(Rank peer, const Slice& local, Completion& done, Label label) {
  return post({.verb = Verb::send, .peer = peer, .local = {&local, 1}, .label = label, .done = &done});
}

Status Member::recv(Rank peer, const Slice& local, Completion& done, Label label) {
  return post({.verb = Verb::recv, .peer = peer, .local = {&local, 1}, .label = label, .done = &done});
}

Status Member::progress_until(const Completion& done, Deadline deadline) {
  while (!done.done()) {
    if (deadline.passed()) return {Code::timed_out, "the works did not finish"};
    RONDEL_TRY(
        e.progress(std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::milliseconds(100))));
  }
  return {};
}

Status Member::progress_until_failure(Deadline deadline) {
  while (!deadline.passed()) RONDEL_TRY(e.progress(std::chrono::milliseconds(100)));
  return {};
}

void Member::exchange(Rank peer, std::uint64_t number) {
  const std::size_t bytes = 40;
  Buffer out(e, message(rank(), peer, number, bytes));
  Buffer in(e, bytes);
  const Slice from = out.all();
  const Slice to = in.all();
  Completion& done = armed(2);
  const std::array works{Work{.verb = Verb::send, .peer = peer, .local = {&from, 1}, .done = &done},
                         Work{.verb = Verb::recv, .peer = peer, .local = {&to, 1}, .done = &done}};
  t.require_ok(e.post(works, {}), "post an exchange");
  t.require_ok(progress_until(done), "finish an exchange");
  t.expect(in.bytes() == message(peer, rank(), number, bytes), "the peer's bytes have arrived");
}

std::vector<Rank> everyone_but(Rank rank, Rank size) {
  std::vector<Rank> ranks;
  for (Rank other = 0; other < size; ++other)
    if (other != rank) ranks.push_back(other);
  return ranks;
}

EndpointOptions options_for(Rank rank, Rank size, std::uint64_t context, std::uint16_t channel) {
  EndpointOptions options{.rank = rank,
                          .size = size,
                          .context = context,
                          .channel = channel,
                          .description = fmt::format("rank {} of {}", rank, size),
                          .hosts = {},
                          .oversubscribed = true};
  for (Rank r = 0; r < size; ++r) options.hosts.push_back(fmt::format("host-{}", r));
  return options;
}

std::string run_world(Rank ranks, const BodyWithAddresses& body, const WorldOptions& options) {
  const auto backend = make_backend();
  test::Meeting meeting(ranks);
  AddressBook addresses(static_cast<std::size_t>(ranks));
  const auto rank_body = [&](test::RankTest& t) {
    std::deque<Completion> completions;
    const auto transport = backend->transport_for(t.rank());
    auto endpoint = transport->open(options_for(t.rank(), ranks));
    t.require_ok(endpoint, "open an endpoint");
    Member member(t, *transport, **endpoint, meeting, completions);
    addresses[static_cast<std::size_t>(t.rank())] = member.e.address();
    member.meet();
    if (options.connected)
      t.require_ok(member.e.connect(addresses, everyone_but(t.rank(), ranks), soon()), "connect with all");
    body(member, addresses);
  };
  return test::all_of(test::run_as_threads(ranks, rank_body, options.limit));
}

std::string run_world(Rank ranks, const Body& body, const WorldOptions& options) {
  return run_world(
      ranks, [&body](Member& member, const AddressBook&) { body(member); }, options);
}

Secret fresh_secret() {
  auto secret = Secret::generate();
  check(secret.ok(), "the system gives random numbers");
  return *secret;
}

}  // namespace rondel::conformance
