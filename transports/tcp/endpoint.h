// SPDX-License-Identifier: Apache-2.0
// The TCP endpoint: links to the peers that were connected, moved by the driver thread. It polls for a while,
// then sleeps in epoll. Connecting happens on the listener's thread; sockets arrive through the inbox.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/host_identity.h"
#include "lib/readiness.h"
#include "transports/endpoint.h"
#include "transports/patience.h"
#include "transports/reach.h"
#include "transports/tcp/inbox.h"
#include "transports/tcp/link.h"
#include "transports/tcp/listener.h"
#include "transports/transport.h"

namespace rondel::tcp {

struct EndpointPolicy {
  std::chrono::nanoseconds spin{std::chrono::microseconds(1000)};  ///< RONDEL_SPIN_US
  std::chrono::milliseconds silence{10'000};
};

class TcpEndpoint final : public Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> open(std::shared_ptr<Listener> listener,
                                                std::vector<Interface> interfaces,
                                                const EndpointOptions& options, const EndpointPolicy& policy);
  ~TcpEndpoint() override;

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
  std::optional<LabelMismatch> mismatch() const override { return mismatch_; }
  int wait_descriptor() override;
  std::uint64_t bytes_received() const override;
  std::uint64_t bytes_sent() const override;

 private:
  struct Dial {
    bool goes_on = false;
    Status outcome;  // so far
  };

  TcpEndpoint(std::shared_ptr<Listener> listener, HostIdentity host, std::vector<Interface> interfaces,
              EndpointOptions options, const EndpointPolicy& policy, Readiness readiness);

  EndpointKey key() const { return {options_.context, options_.channel, options_.rank}; }
  std::optional<std::size_t> room_for(const Work& work) const;
  Status dial(const Bytes& address, Rank peer);
  Status await_links(std::span<const Rank> neighbours, Deadline deadline);
  Status take_arrivals(std::span<const Rank> awaited);
  Turn turn_of_links();
  void settle();
  void watch_links();
  void sleep(std::chrono::nanoseconds at_most);
  void look_for_silence();
  void poison(Code code, Rank peer, std::string cause, std::string hint = {});
  void poison_by(const Link& link);

  const std::shared_ptr<Listener> listener_;
  const HostIdentity host_;
  const std::vector<Interface> interfaces_;
  const EndpointOptions options_;
  const EndpointPolicy policy_;
  Patience patience_;
  Capabilities capabilities_;
  Readiness readiness_;
  std::shared_ptr<Inbox> inbox_;
  std::vector<std::byte> stage_;
  std::vector<std::unique_ptr<Link>> by_rank_;  // null: not connected
  std::vector<Link*> active_;                   // links with works posted, in rank order of posting
  std::vector<Dial> dials_;                     // by rank
  Deadline::Clock::time_point next_look_{};
  Status failure_;
  std::optional<LabelMismatch> mismatch_;
};

}  // namespace rondel::tcp
