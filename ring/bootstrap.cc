// SPDX-License-Identifier: Apache-2.0
#include "ring/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lib/host_identity.h"
#include "lib/log.h"
#include "ring/calibration.h"
#include "ring/introduction.h"
#include "ring/order.h"
#include "ring/schedule.h"
#include "transports/select.h"

namespace rondel {
namespace {

constexpr std::chrono::milliseconds kConnectSlice{2000};
// All give up at the same moment. Those who can say most speak first: who lacks a link before who waits for
// their measurements, and of a link's two ends the smaller rank, which dials.
constexpr std::chrono::milliseconds kOthersFirst{500};

/// Connects, in slices, so that an incident on `watch` ends the wait. timed_out and peer_lost name the
/// missing rank.
Status connect_watched(Endpoint& endpoint, std::span<const Bytes> addresses, std::span<const Rank> peers,
                       const liveness::Watch& watch, Deadline deadline) {
  for (;;) {
    Status connected = endpoint.connect(addresses, peers, Deadline::in(kConnectSlice).or_before(deadline));
    if (connected.code() != Code::timed_out || deadline.passed() || watch.raised()) return connected;
  }
}

Status differ(std::string_view setting, Rank rank, const std::string& first, const std::string& other) {
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("not set") : value; };
  return Status(
      Code::refused,
      fmt::format("{} differs: rank 0 has {}, rank {} has {}", setting, shown(first), rank, shown(other)),
      "set it alike on every rank");
}

/// Settings that change what ranks send one another.
Status check_settings(std::span<const Hello> hellos) {
  const Hello& first = hellos.front();
  for (std::size_t i = 1; i < hellos.size(); ++i) {
    const Hello& hello = hellos[i];
    const auto rank = static_cast<Rank>(i);
    if (hello.size != first.size)
      return differ("the number of ranks", rank, std::to_string(first.size), std::to_string(hello.size));
    if (hello.transport != first.transport)
      return differ("RONDEL_TRANSPORT", rank, first.transport, hello.transport);
    if (hello.algorithm != first.algorithm)
      return differ("RONDEL_ALGORITHM", rank, first.algorithm, hello.algorithm);
    if (hello.segment_bytes != first.segment_bytes)
      return differ("RONDEL_SEGMENT_BYTES", rank, std::to_string(first.segment_bytes),
                    std::to_string(hello.segment_bytes));
  }
  return {};
}

/// How the ranks lie around `rank`, for its endpoints.
struct Surroundings {
  bool oversubscribed = false;
  bool single_host = false;
};

Surroundings look_around(std::span<const Hello> hellos, Rank rank) {
  const HostIdentity& own = hellos[static_cast<std::size_t>(rank)].host;
  const auto here =
      std::ranges::count_if(hellos, [&own](const Hello& hello) { return hello.host.kernel == own.kernel; });
  const auto on_machine =
      std::ranges::count_if(hellos, [&own](const Hello& hello) { return same_machine(hello.host, own); });
  return {here > own.cores || on_machine > machine_cores(), here == std::ssize(hellos)};
}

class Bootstrap {
 public:
  Bootstrap(Job& job, const CommunicatorOptions& options, Exchange& exchange, const liveness::Watch& watch,
            Deadline deadline)
      : job_(job), options_(options), exchange_(exchange), watch_(watch), deadline_(deadline) {}

  Result<Attachment> run();

 private:
  Status look_at_own();
  Result<std::vector<Hello>> greet();
  Status settle(std::span<const Hello> hellos, int round);
  Status choose(std::span<const Hello> hellos);
  Transport* chosen() const;
  Answer answer(const Surroundings& around);
  Status try_beacons(Answer& answer) const;
  Status open(const Surroundings& around);
  bool part_who_can_not_meet(std::span<const Answer> answers);
  Status connect();
  Status as_all_read_it(const Status& failed) const;
  void let_others_speak() const { liveness::Member::await(watch_, Deadline::in(kOthersFirst)); }

  Job& job_;
  const CommunicatorOptions& options_;
  Exchange& exchange_;
  const liveness::Watch& watch_;
  const Deadline deadline_;
  Hello own_;  // its beacons are lit until the others have tried them
  std::vector<Offers> offers_;
  Attachment attachment_;
};

Status Bootstrap::look_at_own() {
  auto host = this_host();
  RONDEL_TRY(host);
  own_.size = options_.size;
  own_.transport = options_.transport;
  own_.algorithm = options_.algorithm;
  own_.segment_bytes = options_.segment_bytes;
  own_.host = *std::move(host);
  for (const auto& transport : job_.transports)
    own_.offers.push_back({std::string(transport->name()), transport->probe()});
  return {};
}

Result<std::vector<Hello>> Bootstrap::greet() {
  RONDEL_TRY(look_at_own());
  auto all = exchange_.all_gather("hello", encode(own_), deadline_);
  RONDEL_TRY(all);
  std::vector<Hello> hellos;
  for (const Bytes& bytes : *all) {
    auto hello = decode_hello(bytes, static_cast<Rank>(hellos.size()));
    RONDEL_TRY(hello);
    hellos.push_back(std::move(hello).value());
  }
  return hellos;
}

Status Bootstrap::choose(std::span<const Hello> hellos) {
  attachment_ = {};
  for (const Hello& hello : hellos) attachment_.hosts.push_back(hello.host.name);
  auto chosen = select_transport(offers_, attachment_.hosts, options_.transport);
  RONDEL_TRY(chosen);
  attachment_.transport = std::move(chosen->transport);
  attachment_.places = std::move(chosen->places);
  std::vector<std::string> kernels;
  for (const Hello& hello : hellos) kernels.push_back(hello.host.kernel);
  attachment_.order = ring_order(kernels);
  if (by_number(attachment_.order)) attachment_.order.clear();
  return {};
}

Transport* Bootstrap::chosen() const {
  const auto found = std::ranges::find_if(
      job_.transports, [this](const auto& candidate) { return candidate->name() == attachment_.transport; });
  return found == job_.transports.end() ? nullptr : found->get();
}

/// Notes whom the chosen transport promises and this rank does not reach. Fails for want of own resources.
Status Bootstrap::try_beacons(Answer& answer) const {
  for (const Rank owner : beacons_to_try(attachment_.transport, offers_, options_.rank)) {
    const auto index = static_cast<std::size_t>(owner);
    Status reached = chosen()->try_beacon(beacon_of(attachment_.transport, offers_[index]));
    if (reached.code() == Code::out_of_resources) return reached;
    if (reached.ok()) continue;
    if (answer.unreached.empty())
      answer.why_unreached =
          fmt::format("rank {} ({}) does not reach rank {} ({}): {}", options_.rank, own_.host.name, owner,
                      attachment_.hosts[index], reached.failure().cause);
    answer.unreached.push_back(owner);
  }
  return {};
}

Status Bootstrap::open(const Surroundings& around) {
  EndpointOptions options;
  options.rank = options_.rank;
  options.size = options_.size;
  options.context = watch_.context();
  options.description = fmt::format("rank {} of {}", options_.rank, options_.size);
  options.hosts = attachment_.hosts;
  options.oversubscribed = around.oversubscribed;
  options.single_host = around.single_host;
  options.places = attachment_.places;
  const std::lock_guard lock(job_.creating);
  for (const std::uint16_t channel : {std::uint16_t{0}, std::uint16_t{1}}) {
    options.channel = channel;
    auto endpoint = chosen()->open(options);
    RONDEL_TRY(endpoint);
    (channel == 0 ? attachment_.data : attachment_.pairs) = std::move(endpoint).value();
  }
  return {};
}

Answer Bootstrap::answer(const Surroundings& around) {
  Answer mine;
  if (chosen() == nullptr) {
    mine.opened = Status(Code::internal, "the chosen transport is not built in");
    return mine;
  }
  mine.opened = try_beacons(mine);
  if (!mine.opened.ok() || !mine.unreached.empty()) return mine;
  mine.opened = open(around);
  if (!mine.opened.ok()) return mine;
  mine.data = attachment_.data->address();
  mine.pairs = attachment_.pairs->address();
  return mine;
}

/// Ranks that do not reach one another will be offered no transport that says they do. False: all reach all.
bool Bootstrap::part_who_can_not_meet(std::span<const Answer> answers) {
  std::vector<std::vector<Rank>> unreached;
  for (const Answer& answer : answers) unreached.push_back(answer.unreached);
  const auto first = std::ranges::find_if(unreached, [](const auto& ranks) { return !ranks.empty(); });
  if (first == unreached.end()) return false;
  if (first - unreached.begin() == options_.rank)
    log(job_.told_of_unreached.test_and_set() ? LogLevel::info : LogLevel::warn,
        "transport {}: {}; such ranks use another one", attachment_.transport,
        answers[static_cast<std::size_t>(options_.rank)].why_unreached);
  separate(attachment_.transport, offers_, unreached);
  return true;
}

/// Chooses a transport and opens it, or finds out that another one must be chosen: then there are no
/// addresses yet.
Status Bootstrap::settle(std::span<const Hello> hellos, int round) {
  RONDEL_TRY(choose(hellos));
  const Answer mine = answer(look_around(hellos, options_.rank));
  const std::string what = round == 0 ? "address" : fmt::format("address.{}", round);
  auto all = exchange_.all_gather(what, encode(mine), deadline_);
  if (!mine.opened.ok()) return can_not_start(options_.rank, own_.host.name, mine.opened);
  RONDEL_TRY(all);
  std::vector<Answer> answers;
  for (const Bytes& bytes : *all) {
    auto decoded = decode_answer(bytes, static_cast<Rank>(answers.size()), attachment_.hosts[answers.size()]);
    RONDEL_TRY(decoded);
    RONDEL_TRY(decoded->opened);
    answers.push_back(std::move(decoded).value());
  }
  if (part_who_can_not_meet(answers)) return {};
  for (Answer& answer : answers) {
    attachment_.data_addresses.push_back(std::move(answer.data));
    attachment_.pair_addresses.push_back(std::move(answer.pairs));
  }
  return {};
}

/// What this rank ran out of is its own fault, whatever it was doing with another one.
Status Bootstrap::as_all_read_it(const Status& failed) const {
  Failure failure = failed.failure();
  if (failed.code() == Code::out_of_resources || failed.code() == Code::io_error) {
    failure.cause = fmt::format("rank {} on {}: {}", options_.rank, own_.host.name, failure.cause);
    failure.peer = options_.rank;
    failure.host = own_.host.name;
  } else {
    failure.cause = fmt::format("rank {}: {}", options_.rank, failure.cause);
  }
  return Status(failed.code(), std::move(failure));
}

Status Bootstrap::connect() {
  const Schedule agreement = make_agreement(options_.rank, options_.size);
  const Status connected =
      connect_watched(*attachment_.data, attachment_.data_addresses, agreement.peers, watch_, deadline_);
  if (connected.code() == Code::timed_out && connected.failure().peer < options_.rank) let_others_speak();
  if (!connected.ok()) return as_all_read_it(connected);
  auto cost = measure_cost(*attachment_.data, options_.rank, options_.size, watch_, deadline_);
  if (cost.code() == Code::timed_out) let_others_speak();
  if (!cost.ok()) return as_all_read_it(cost.status());
  attachment_.cost = *cost;
  log(LogLevel::info,
      "communicator \"{}\": {} ranks over {}, a hop takes {:.1f} us, a further message {:.1f} us, {:.2f} "
      "GB/s",
      options_.name, options_.size, attachment_.transport, cost->hop_seconds * 1e6,
      cost->message_seconds * 1e6, cost->bytes_per_second / 1e9);
  return {};
}

Result<Attachment> Bootstrap::run() {
  auto hellos = greet();
  RONDEL_TRY(hellos);
  RONDEL_TRY(check_settings(*hellos));
  for (const Hello& hello : *hellos) offers_.push_back(hello.offers);
  for (int round = 0; attachment_.data_addresses.empty(); ++round) RONDEL_TRY(settle(*hellos, round));
  RONDEL_TRY(connect());
  return std::move(attachment_);
}

}  // namespace

liveness::Context context_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return hash;
}

Result<Attachment> bootstrap(Job& job, const CommunicatorOptions& options, Exchange& exchange,
                             const liveness::Watch& watch, Deadline deadline) {
  return Bootstrap(job, options, exchange, watch, deadline).run();
}

}  // namespace rondel
