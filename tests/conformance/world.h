// SPDX-License-Identifier: Apache-2.0
// A world of ranks for one case: n threads, an endpoint each, addresses exchanged, links up; and short words
// for what cases do all the time. A Member is its thread's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/backend.h"
#include "tests/support/rank_test.h"
#include "tests/support/thread_world.h"

namespace rondel::conformance {

/// For waits that a correct backend ends at once.
inline Deadline soon() { return Deadline::in(std::chrono::seconds(40)); }

/// Registered memory.
class Buffer {
 public:
  Buffer(Endpoint& endpoint, std::size_t bytes, std::byte filler = std::byte{0});
  Buffer(Endpoint& endpoint, Bytes content);

  Bytes& bytes() { return content_; }
  const Bytes& bytes() const { return content_; }
  Slice all() const { return {region_.get(), 0, content_.size()}; }
  Slice part(std::size_t offset, std::size_t bytes) const { return {region_.get(), offset, bytes}; }

 private:
  Bytes content_;
  std::unique_ptr<Registration> region_;
};

/// Bytes that depend on `from`, `to`, `number` and position.
Bytes message(Rank from, Rank to, std::uint64_t number, std::size_t bytes);

/// What one rank of a world has in hand. Its completions outlive the endpoint, whatever becomes of the case.
class Member {
 public:
  Member(test::RankTest& rank_test, Transport& rank_transport, Endpoint& endpoint, test::Meeting& meeting,
         std::deque<Completion>& completions)
      : t(rank_test), transport(rank_transport), e(endpoint), meeting_(meeting), completions_(completions) {}

  test::RankTest& t;
  Transport& transport;
  Endpoint& e;

  Rank rank() const { return t.rank(); }
  Rank size() const { return t.size(); }
  /// Waits for all ranks of the world.
  void meet() { t.require(meeting_.arrive_and_wait(soon()), "all ranks meet"); }
  Completion& armed(std::uint32_t works);

  /// Posts one work; send and recv: on one slice.
  Status post(const Work& work) { return e.post({&work, 1}, {}); }
  Status send(Rank peer, const Slice& local, Completion& done, Label label = {});
  Status recv(Rank peer, const Slice& local, Completion& done, Label label = {});

  /// Progresses until `done` is done or the endpoint fails.
  Status progress_until(const Completion& done, Deadline deadline = soon());
  /// Progresses until the endpoint has failed, and returns that failure; ok when it has not by the deadline.
  Status progress_until_failure(Deadline deadline = soon());
  /// Sends and receives one small message with `peer`: the link works.
  void exchange(Rank peer, std::uint64_t number = 0);

 private:
  test::Meeting& meeting_;
  std::deque<Completion>& completions_;
};

struct WorldOptions {
  bool connected = true;  ///< all with all, before the body runs
  std::chrono::nanoseconds limit{std::chrono::seconds(100)};
};

/// Address exchange for cases that open or connect by themselves: slots by rank, filled before a meeting.
using AddressBook = std::vector<Bytes>;

std::vector<Rank> everyone_but(Rank rank, Rank size);
EndpointOptions options_for(Rank rank, Rank size, std::uint64_t context = 7, std::uint16_t channel = 0);

using Body = std::function<void(Member&)>;
/// The same, told the addresses of all ranks.
using BodyWithAddresses = std::function<void(Member&, const AddressBook&)>;

/// Runs `body` as every rank of a new world; all failures, one a line, empty when there are none.
std::string run_world(Rank ranks, const Body& body, const WorldOptions& options = {});
std::string run_world(Rank ranks, const BodyWithAddresses& body, const WorldOptions& options);

}  // namespace rondel::conformance
