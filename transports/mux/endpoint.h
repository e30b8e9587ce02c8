// SPDX-License-Identifier: Apache-2.0
// MuxEndpoint: gives each work to the inner or the outer endpoint, by where its peer is; the failure of one
// is the failure of both. Moves no byte itself. Driver thread only.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/readiness.h"
#include "transports/endpoint.h"
#include "transports/patience.h"
#include "transports/transport.h"

namespace rondel::mux {

class MuxEndpoint final : public Endpoint {
 public:
  /// `inner` is null where no other rank shares this one's place. `spin`: how long to poll before sleeping.
  static Result<std::unique_ptr<Endpoint>> create(const EndpointOptions& options,
                                                  std::chrono::nanoseconds spin,
                                                  std::unique_ptr<Endpoint> inner,
                                                  std::unique_ptr<Endpoint> outer);
  ~MuxEndpoint() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  Bytes address() const override;
  Status connect(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                 Deadline deadline) override;
  Result<std::unique_ptr<Registration>> register_memory(MemorySpan memory) override;
  Status post(std::span<const Work> batch, StreamRef stream) override;
  Status can_post(std::span<const Work> batch) override;
  Result<std::size_t> progress(std::chrono::nanoseconds may_block_for) override;
  void abort(Code why) noexcept override;
  const Status& failure() const override { return failure_; }
  std::optional<LabelMismatch> mismatch() const override;
  int wait_descriptor() override;
  std::uint64_t bytes_received() const override;
  std::uint64_t bytes_sent() const override;
  std::vector<Counter> counters() const override;

 private:
  struct Side {
    std::unique_ptr<Endpoint> endpoint;
    std::vector<Work> works;  // its share of the batch that is being posted
    std::uint32_t watched_events = 0;
  };
  enum Which : std::size_t { kInner, kOuter };

  MuxEndpoint(const EndpointOptions& options, std::chrono::nanoseconds spin, std::unique_ptr<Endpoint> inner,
              std::unique_ptr<Endpoint> outer, Readiness readiness);
  std::size_t side_of(Rank peer) const;
  template <class Visit>
  void each_side(Visit&& visit) const;
  std::span<const Slice> translate(std::span<const Slice> slices, std::size_t side);
  void sort_out(std::span<const Work> batch);
  Result<std::size_t> turn();
  /// Ends both sides with the failure of one.
  const Status& poison(const Status& why);

  const EndpointOptions options_;
  const Capabilities capabilities_;
  Patience patience_;
  Readiness readiness_;
  std::array<Side, 2> sides_;  // by Which
  std::vector<Slice> slices_;  // of the batch that is being posted
  std::size_t open_works_ = 0;
  Status failure_;
};

}  // namespace rondel::mux
