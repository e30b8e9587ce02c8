// SPDX-License-Identifier: Apache-2.0
// A job whose ranks are threads of the test: a real job server with liveness, a store in memory, and links
// over the Fabric that the program has. Each rank's body gets its own Job and Communicator. Main thread only,
// except run()'s bodies.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/store/memory_store.h"
#include "lib/store/tcp_server.h"
#include "ring/communicator.h"
#include "tests/ring/fabric.h"
#include "tests/support/rank_test.h"
#include "tests/support/thread_world.h"

namespace rondel::test {

class RingWorld {
 public:
  using Tune = std::function<void(Rank, CommunicatorOptions&)>;
  using Body = std::function<void(RankTest&, Communicator&)>;

  explicit RingWorld(Rank ranks);

  std::shared_ptr<Job> make_job(Rank rank);
  CommunicatorOptions options(Rank rank) const;

  /// Creates a communicator on every rank and calls `body`; all failures, one a line.
  std::string run(const Body& body, const Tune& tune = {});
  /// The same without creating communicators.
  std::string run_bare(const std::function<void(RankTest&)>& body);

 private:
  const Rank ranks_;
  Secret secret_;
  std::unique_ptr<TcpServer> server_;
  std::shared_ptr<MemoryStoreData> store_ = make_memory_store_data();
  std::unique_ptr<Fabric> fabric_ = make_fabric();
};

/// Runs the request on buffers of its own, made from make_input, and checks the result against the plain
/// reference.
struct Trial {
  CollectiveKind kind = CollectiveKind::all_reduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  std::uint64_t count = 1;
  std::vector<std::uint64_t> counts;
  Rank root = 0;
  bool in_place = false;
  std::uint64_t seed = 1;
};
void try_out(RankTest& test, Communicator& communicator, const Trial& trial);

CollectiveRequest all_reduce_request(const std::vector<float>& input, std::vector<float>& output,
                                     ReduceOp op = ReduceOp::sum);

}  // namespace rondel::test
