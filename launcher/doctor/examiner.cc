// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/examiner.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "launcher/doctor/facts_json.h"
#include "launcher/doctor/local_facts.h"
#include "launcher/doctor/probe_client.h"
#include "launcher/machine.h"
#include "launcher/resources.h"
#include "lib/service_thread.h"

namespace rondel::doctor {
namespace {

constexpr std::size_t kOwnDescriptors = 32;

/// How many connections a low limit leaves for.
std::size_t connections_at_once() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= kOwnDescriptors + 1) return 1;
  return std::min<std::size_t>(limit.rlim_cur - kOwnDescriptors, 1024);
}

/// As an agent does for its ranks; the limits that they would have are the result.
LimitFacts raise_open_files() {
  const LimitFacts before = open_file_limits();
  static_cast<void>(make_room_for_descriptors(0, 0, "agent"));
  return before;
}

std::string text_of(const HostFacts& facts) {
  return to_json(facts).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Examiner::Examiner(EventLoop& loop, const agent::Examine& order, const Secret& secret, Send send)
    : loop_(loop),
      secret_(secret),
      send_(std::move(send)),
      server_(loop, secret, order.host),
      results_(std::make_shared<Results>()) {}

Examiner::~Examiner() {
  if (results_->bell) loop_.forget(results_->bell.get());
}

Result<std::unique_ptr<Examiner>> Examiner::start(EventLoop& loop, const agent::Examine& order,
                                                  TransportLook look, Send send) {
  const auto secret = Secret::from_bytes(order.secret);
  if (!secret.ok()) return secret.status();
  const auto range = parse_port_range(order.ports);
  if (!range.ok()) return range.status();
  std::unique_ptr<Examiner> made(new Examiner(loop, order, *secret, std::move(send)));
  RONDEL_TRY(made->open());
  const PortFacts ports = made->server_.listen(*range);
  const LimitFacts open_files = raise_open_files();
  const auto bound = bind_on_this_host(order.binding, static_cast<Rank>(order.ranks));
  made->run([ports, open_files, bound = bound.status(), net = order.net,
             look = std::move(look)]() -> agent::FromAgent {
    HostFacts facts = gather_facts(net);
    facts.ports = ports;
    facts.open_files = open_files;
    if (!bound.ok()) facts.binding_failure = bound.text();
    if (look) facts.transports = look(net);
    return agent::Examined{text_of(facts)};
  });
  return made;
}

Status Examiner::open() {
  results_->bell = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!results_->bell) return system_failure(Code::out_of_resources, "eventfd", errno);
  return loop_.watch(results_->bell.get(), EPOLLIN, [this] { send_results(); });
}

void Examiner::run(std::function<agent::FromAgent()> work) {
  const auto deliver = [results = results_](agent::FromAgent message) {
    const std::scoped_lock guard(results->lock);
    results->messages.push_back(std::move(message));
    ::eventfd_write(results->bell.get(), 1);
  };
  auto thread = start_service("an examination", [deliver, work = std::move(work)] { deliver(work()); });
  if (!thread.ok()) return send_(agent::StartFailed{thread.status().text()});
  thread->detach();  // a name resolver can not be told to stop
}

void Examiner::send_results() {
  eventfd_t count = 0;
  ::eventfd_read(results_->bell.get(), &count);
  std::deque<agent::FromAgent> messages;
  {
    const std::scoped_lock guard(results_->lock);
    messages.swap(results_->messages);
  }
  for (const agent::FromAgent& message : messages) send_(message);
}

void Examiner::take(const agent::ClockAsk& ask) const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  send_(agent::ClockTell{ask.number, static_cast<std::uint64_t>(
                                         std::chrono::duration_cast<std::chrono::nanoseconds>(now).count())});
}

void Examiner::take(const agent::Reach& order) {
  run([order, secret = secret_]() -> agent::FromAgent {
    return reach_all(order, secret, connections_at_once());
  });
}

void Examiner::take(const agent::Measure& order) {
  run([order, secret = secret_]() -> agent::FromAgent { return measure(order, secret); });
}

}  // namespace rondel::doctor
