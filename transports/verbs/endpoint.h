// SPDX-License-Identifier: Apache-2.0
// The verbs endpoint: links to the peers that were connected, moved by the driver thread. It polls the
// completion queues for a while, then sleeps in epoll on their channel and on the links' sockets. It has no
// thread of its own: connecting happens inside connect().
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/readiness.h"
#include "transports/endpoint.h"
#include "transports/patience.h"
#include "transports/transport.h"
#include "transports/verbs/completion_queues.h"
#include "transports/verbs/device.h"
#include "transports/verbs/link_table.h"
#include "transports/verbs/meeting.h"
#include "transports/verbs/registration_cache.h"

namespace rondel::verbs {

class VerbsEndpoint final : public Endpoint {
 public:
  /// `pairs`: queue pairs of a link, at most.
  static Result<std::unique_ptr<Endpoint>> open(std::shared_ptr<RegistrationCache> memory, MeetingPlace place,
                                                const EndpointOptions& options, const Secret& secret,
                                                std::chrono::nanoseconds spin, std::uint32_t pairs);
  ~VerbsEndpoint() override;

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
  std::uint64_t bytes_received() const override { return links_.bytes_received(); }
  std::uint64_t bytes_sent() const override { return links_.bytes_sent(); }
  std::vector<Counter> counters() const override;

 private:
  /// What a turn did.
  struct Turn {
    bool moved = false;        // something completed
    std::size_t finished = 0;  // works finished
  };

  VerbsEndpoint(std::shared_ptr<RegistrationCache> memory, std::unique_ptr<CompletionQueues> queues,
                Meeting meeting, EndpointOptions options, LinkRoom room, std::chrono::milliseconds silence,
                std::chrono::nanoseconds spin, Readiness readiness);

  std::optional<std::size_t> room_for(const Work& work) const;
  Status await_links(std::span<const Rank> neighbours, Deadline deadline);
  Status refused_by(Rank peer) const;
  Status missing(Rank peer) const;
  void take_arrivals(Turn& turn);
  void take_departures(Turn& turn);
  Turn turn_of_queues();
  std::size_t look_when_due();
  std::size_t look_at_links();
  std::size_t settle_departure(Link& link);
  std::size_t settle_departures();
  void settle();
  void drop_idle();
  void close_broken();
  bool arm_queues();
  bool has_trouble() const;
  void watch_links();
  std::size_t sleep(std::chrono::nanoseconds at_most);
  void look_at_device();
  void look_at_port();
  std::string port_text() const;
  void poison_by(const Link& link);
  void poison(Status failure);

  const std::shared_ptr<Device> device_;
  const std::unique_ptr<CompletionQueues> queues_;
  const EndpointOptions options_;
  Capabilities capabilities_;
  Patience patience_;
  Readiness readiness_;
  std::uint32_t channel_watched_ = 0;
  std::uint32_t events_watched_ = 0;
  std::uint32_t end_watched_ = 0;
  Meeting meeting_;
  const std::shared_ptr<RegistrationCache> memory_;
  LinkTable links_;
  std::vector<Link*> active_;   // with works posted
  std::vector<Link*> touched_;  // by completions of this turn
  Deadline::Clock::time_point next_look_{};
  Deadline::Clock::time_point next_meeting_{};
  const std::chrono::milliseconds silence_;
  std::optional<Deadline> port_due_;  // while it is down and works wait in vain
  bool departures_armed_ = false;     // or due for a look; until the next turn
  Status failure_;
  std::optional<LabelMismatch> mismatch_;
};

}  // namespace rondel::verbs
