// SPDX-License-Identifier: Apache-2.0
#include "launcher/fleet.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rondel {
namespace {

using Stage = HostLink::Stage;
using std::chrono::milliseconds;

constexpr std::size_t kLoginsAtOnce = 64;
constexpr int kSignsPerSilence = 4;       // three may be late
constexpr milliseconds kAfterSsh{2'000};  // ssh's own limit on a login comes first, and says more

/// So that the output under way from all hosts together stays bounded.
std::uint32_t window_for(std::size_t hosts) {
  constexpr std::size_t kAll = 16U << 20U, kLeast = 64U << 10U, kMost = 1U << 20U;
  return static_cast<std::uint32_t>(std::clamp(kAll / hosts, kLeast, kMost));
}

}  // namespace

Fleet::Fleet(EventLoop& loop, const JobPlan& plan, const SshOptions& ssh, const std::string& version,
             HostLink::Listener& listener)
    : plan_(plan) {
  std::map<std::size_t, std::size_t> link_of_host;
  for (const RankPlace& place : plan.places) link_of_host.emplace(place.host, 0);
  std::vector<HostLink::Setup> setups;
  for (auto& [host, link] : link_of_host) {
    link = setups.size();
    setups.push_back({.label = label_of(plan.hosts[host]),
                      .host = plan.hosts[host],
                      .local = plan.is_local(host),
                      .ranks = {},
                      .version = version,
                      .ssh = ssh,
                      .window = window_for(link_of_host.size()),
                      .silence = plan.silence + kAfterSilence,
                      .patience = plan.start_timeout + kAfterSsh});
  }
  for (const RankPlace& place : plan.places) {
    link_of_rank_.push_back(link_of_host[place.host]);
    setups[link_of_rank_.back()].ranks.push_back(place);
  }
  for (HostLink::Setup& setup : setups)
    links_.push_back(std::make_unique<HostLink>(loop, std::move(setup), listener));
}

void Fleet::start(LocalAgent local, ProcessRequest request) {
  request_ = std::move(request);
  const auto own =
      std::find_if(links_.begin(), links_.end(), [](const auto& link) { return link->setup().local; });
  if (own != links_.end()) (*own)->start_local(std::move(local));
  log_in_more(Deadline::Clock::now());
}

void Fleet::log_in_more(Time now) {
  const auto connecting = std::count_if(links_.begin(), links_.end(),
                                        [](const auto& link) { return link->stage() == Stage::connecting; });
  auto room = static_cast<std::ptrdiff_t>(kLoginsAtOnce) - connecting;
  for (const auto& link : links_) {
    if (room <= 0) return;
    if (!link->wants_login(now)) continue;
    log_in(*link);
    --room;
  }
}

void Fleet::log_in(HostLink& link) {
  auto words = ssh_words(link.setup().host, link.setup().ssh, plan_.start_timeout, plan_.silence);
  if (!words.ok()) return link.lose(words.status().text());
  ProcessRequest request = request_;
  request.words = *std::move(words);
  link.start_ssh(std::move(request));
}

void Fleet::tell(const agent::FromLauncher& message) {
  for (const auto& link : links_)
    if (link->stage() == Stage::ordered) link->send(message);
}

void Fleet::flush_within(milliseconds limit) {
  const Deadline deadline = Deadline::in(limit);
  for (const auto& link : links_)
    link->flush_within(std::chrono::duration_cast<milliseconds>(deadline.left()));
}

void Fleet::return_room(agent::Stream stream) {
  for (const auto& link : links_) link->return_room(stream);
}

void Fleet::look(Time now) {
  for (const auto& link : links_) link->look(now);
  if (any(Stage::unstarted)) log_in_more(now);
  const bool far = std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    return !link->setup().local && link->stage() == Stage::ordered;
  });
  if (!far) {
    next_sign_ = Time::max();
  } else if (next_sign_ == Time::max() || now >= next_sign_) {
    for (const auto& link : links_)
      if (!link->setup().local && link->stage() == Stage::ordered) link->send(agent::Alive{});
    next_sign_ = now + plan_.silence / kSignsPerSilence;
  }
}

Fleet::Time Fleet::next_look() const {
  Time next = next_sign_;
  for (const auto& link : links_) next = std::min(next, link->next_look());
  return next;
}

void Fleet::drop_unordered() {
  for (const auto& link : links_)
    if (link->stage() != Stage::ordered) link->lose("not needed");
}

void Fleet::drop(const std::string& why, const std::function<bool(const HostLink&)>& whom) {
  for (const auto& link : links_)
    if (whom(*link)) link->lose(why);
}

bool Fleet::all(Stage stage) const {
  return std::all_of(links_.begin(), links_.end(),
                     [stage](const auto& link) { return link->stage() == stage; });
}

bool Fleet::any(Stage stage) const {
  return std::any_of(links_.begin(), links_.end(),
                     [stage](const auto& link) { return link->stage() == stage; });
}

bool Fleet::over() const {
  return std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link->over(); });
}

}  // namespace rondel
