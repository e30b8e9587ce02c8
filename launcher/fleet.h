// SPDX-License-Identifier: Apache-2.0
// Fleet: the hosts of a job as one. Logs in to all of them, so many at a time, says when all have answered,
// speaks to all, shows each of them signs of life. Owned by the job, runs in its loop; one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "launcher/host_link.h"
#include "launcher/job_plan.h"
#include "launcher/options.h"

namespace rondel {

class Fleet {
 public:
  using Time = HostLink::Time;

  /// One link for each host of the plan that takes ranks.
  Fleet(EventLoop& loop, const JobPlan& plan, const SshOptions& ssh, const std::string& version,
        HostLink::Listener& listener);

  /// Begins to log in; `local` is the agent of this host when it takes ranks, `request` what each ssh gets
  /// beside its words.
  void start(LocalAgent local, ProcessRequest request);
  /// Sends to every host that has its order.
  void tell(const agent::FromLauncher& message);
  /// Waits until what was told has left.
  void flush_within(std::chrono::milliseconds limit);
  void return_room(agent::Stream stream);
  void look(Time now);
  Time next_look() const;
  /// Gives up the hosts that have not been given an order.
  void drop_unordered();
  /// Gives up hosts that are not over.
  void drop(const std::string& why, const std::function<bool(const HostLink&)>& whom);

  bool all(HostLink::Stage stage) const;
  bool any(HostLink::Stage stage) const;
  bool over() const;
  std::span<const std::unique_ptr<HostLink>> links() const { return links_; }
  HostLink& link_of(Rank rank) const { return *links_[link_of_rank_[static_cast<std::size_t>(rank)]]; }

 private:
  void log_in(HostLink& link);
  void log_in_more(Time now);

  const JobPlan& plan_;
  std::vector<std::unique_ptr<HostLink>> links_;
  std::vector<std::size_t> link_of_rank_;
  ProcessRequest request_;
  Time next_sign_ = Time::max();
};

}  // namespace rondel
