// SPDX-License-Identifier: Apache-2.0
// For the tests of the verbs backend: two ranks of one job on a fake fabric, driven by one thread. Main
// thread only.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/unique_fd.h"
#include "tests/support/fake_verbs.h"
#include "transports/verbs/transport_on.h"

namespace rondel::verbs::test {

using rondel::test::FakeCall;
using rondel::test::FakeDevice;
using rondel::test::FakeVerbs;

struct OneRank {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Endpoint> endpoint;
};

/// Opens the endpoint of `rank` of `size`; throws when it can not, with the reason.
OneRank open_rank(const Secret& secret, Rank rank, const Config& config = {},
                  const Result<VerbsLibrary>& library = FakeVerbs::table(), Rank size = 2);

/// Connects two endpoints to one another from two threads; the statuses of both.
std::array<Status, 2> connect_pair(Endpoint& zero, Endpoint& one, Deadline deadline);

/// A socket that is connected to the place where `endpoint` meets its peers.
UniqueFd call(const Endpoint& endpoint);

/// Two ranks that are connected.
class PairOfRanks {
 public:
  explicit PairOfRanks(const std::array<Config, 2>& configs = {},
                       const Result<VerbsLibrary>& library = FakeVerbs::table());
  Endpoint& zero() { return *ranks_[0].endpoint; }
  Endpoint& one() { return *ranks_[1].endpoint; }
  /// Ends the endpoint of rank 1.
  void end_one() { ranks_[1].endpoint.reset(); }

  /// Sends `bytes` bytes from rank 0 to rank 1, and compares; empty when right, else the failure.
  std::string send(std::size_t bytes);
  /// The failure of rank 0 once it has one, within a second.
  Status failure_of_zero();

 private:
  std::array<OneRank, 2> ranks_;
};

/// A registered buffer.
struct Buffer {
  Buffer(Endpoint& endpoint, std::size_t bytes);
  Bytes bytes;
  std::unique_ptr<Registration> region;
  Slice all() const { return {region.get(), 0, bytes.size()}; }
};

/// One work on a buffer of its own, with its completion.
struct OneWork {
  OneWork(Endpoint& endpoint, Verb verb, std::size_t bytes, Label label = {}) : buffer(endpoint, bytes) {
    done.arm(1);
    slice = buffer.all();
    work = {.verb = verb, .local = {&slice, 1}, .label = label, .done = &done};
  }
  Status post(Endpoint& endpoint, Rank peer) {
    work.peer = peer;
    return endpoint.post({&work, 1}, {});
  }
  Buffer buffer;
  Slice slice;
  Completion done;
  Work work;
};

}  // namespace rondel::verbs::test
