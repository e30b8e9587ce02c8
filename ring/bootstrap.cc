// SPDX-License-Identifier: Apache-2.0
#include "ring/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lib/auth.h"
#include "lib/host_identity.h"
#include "lib/log.h"
#include "lib/wire.h"
#include "ring/calibration.h"
#include "ring/order.h"
#include "ring/schedule.h"
#include "transports/select.h"

namespace rondel {
namespace {

constexpr std::chrono::milliseconds kConnectSlice{2000};
// All give up at the same moment. Those who can say most speak first: who lacks a link before who waits for
// their measurements, and of a link's two ends the smaller rank, which dials.
constexpr std::chrono::milliseconds kOthersFirst{500};
constexpr std::size_t kTextLimit = 4096;
constexpr std::size_t kOffersLimit = 64 * 1024;

/// What a rank says of itself first.
struct Hello {
  std::uint16_t version = kProtocolVersion;
  Rank size = 0;
  std::string transport;  // wanted
  std::string algorithm;  // wanted
  std::uint64_t segment_bytes = 0;
  HostIdentity host;
  Offers offers;
};

Bytes encode_hello(const Hello& hello) {
  wire::Writer writer;
  writer.number(hello.version).number(static_cast<std::uint32_t>(hello.size)).text(hello.transport);
  writer.text(hello.algorithm).number(hello.segment_bytes).text(hello.host.name).text(hello.host.kernel);
  writer.number(static_cast<std::uint32_t>(hello.host.cores)).blob(encode(hello.offers));
  return writer.take();
}

Result<Hello> decode_hello(const Bytes& bytes, Rank rank) {
  wire::Reader reader(bytes);
  Hello hello;
  hello.version = reader.number<std::uint16_t>();
  if (hello.version != kProtocolVersion)
    return Status(Code::refused,
                  fmt::format("rank {} speaks protocol version {}, this rank {}", rank, hello.version,
                              kProtocolVersion),
                  "run the same build of Rondel on every rank");
  hello.size = static_cast<Rank>(reader.number<std::uint32_t>());
  hello.transport = reader.text(kTextLimit);
  hello.algorithm = reader.text(kTextLimit);
  hello.segment_bytes = reader.number<std::uint64_t>();
  hello.host.name = reader.text(kTextLimit);
  hello.host.kernel = reader.text(kTextLimit);
  hello.host.cores = static_cast<int>(reader.number<std::uint32_t>());
  auto offers = decode_offers(reader.blob(kOffersLimit));
  RONDEL_TRY(offers);
  hello.offers = std::move(offers).value();
  if (!reader.finished()) return Status(Code::refused, fmt::format("rank {} sent a damaged greeting", rank));
  return hello;
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
  Result<Hello> own_hello() const;
  Result<std::vector<Hello>> greet();
  Status choose(std::span<const Hello> hellos);
  Status open(const Surroundings& around);
  Status exchange_addresses(const Status& opened);
  Status connect();
  void let_others_speak() const { liveness::Member::await(watch_, Deadline::in(kOthersFirst)); }

  Job& job_;
  const CommunicatorOptions& options_;
  Exchange& exchange_;
  const liveness::Watch& watch_;
  const Deadline deadline_;
  Attachment attachment_;
};

Result<Hello> Bootstrap::own_hello() const {
  auto host = this_host();
  RONDEL_TRY(host);
  Hello hello;
  hello.size = options_.size;
  hello.transport = options_.transport;
  hello.algorithm = options_.algorithm;
  hello.segment_bytes = options_.segment_bytes;
  hello.host = *std::move(host);
  for (const auto& transport : job_.transports)
    hello.offers.push_back({std::string(transport->name()), transport->probe()});
  return hello;
}

Result<std::vector<Hello>> Bootstrap::greet() {
  const auto mine = own_hello();
  RONDEL_TRY(mine);
  auto all = exchange_.all_gather("hello", encode_hello(*mine), deadline_);
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
  std::vector<Offers> offers;
  for (const Hello& hello : hellos) {
    offers.push_back(hello.offers);
    attachment_.hosts.push_back(hello.host.name);
  }
  auto chosen = select_transport(offers, attachment_.hosts, options_.transport);
  RONDEL_TRY(chosen);
  attachment_.transport = std::move(chosen->transport);
  attachment_.places = std::move(chosen->places);
  std::vector<std::string> kernels;
  for (const Hello& hello : hellos) kernels.push_back(hello.host.kernel);
  attachment_.order = ring_order(kernels);
  if (by_number(attachment_.order)) attachment_.order.clear();
  return {};
}

Status Bootstrap::open(const Surroundings& around) {
  const auto transport = std::ranges::find_if(
      job_.transports, [this](const auto& candidate) { return candidate->name() == attachment_.transport; });
  if (transport == job_.transports.end())
    return Status(Code::internal, "the chosen transport is not built in");
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
    auto endpoint = (*transport)->open(options);
    RONDEL_TRY(endpoint);
    (channel == 0 ? attachment_.data : attachment_.pairs) = std::move(endpoint).value();
  }
  return {};
}

/// A rank that could not open its endpoints tells the others why in place of its addresses.
Status Bootstrap::exchange_addresses(const Status& opened) {
  wire::Writer writer;
  writer.number(static_cast<std::uint8_t>(opened.code()))
      .text(opened.failure().cause)
      .text(opened.failure().hint);
  if (opened.ok()) writer.blob(attachment_.data->address()).blob(attachment_.pairs->address());
  auto all = exchange_.all_gather("address", writer.bytes(), deadline_);
  RONDEL_TRY(opened);
  RONDEL_TRY(all);
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    wire::Reader reader((*all)[rank]);
    const auto code = static_cast<Code>(reader.number<std::uint8_t>());
    const std::string cause = reader.text(kTextLimit), hint = reader.text(kTextLimit);
    if (code != Code::ok)
      return Status(
          code, fmt::format("rank {} on {} can not start: {}", rank, attachment_.hosts[rank], cause), hint);
    const auto data = reader.blob(kOffersLimit), pairs = reader.blob(kOffersLimit);
    if (!reader.finished()) return Status(Code::refused, fmt::format("rank {} sent a damaged address", rank));
    attachment_.data_addresses.emplace_back(data.begin(), data.end());
    attachment_.pair_addresses.emplace_back(pairs.begin(), pairs.end());
  }
  return {};
}

Status Bootstrap::connect() {
  const Schedule agreement = make_agreement(options_.rank, options_.size);
  const Status connected =
      connect_watched(*attachment_.data, attachment_.data_addresses, agreement.peers, watch_, deadline_);
  if (connected.code() == Code::timed_out && connected.failure().peer < options_.rank) let_others_speak();
  RONDEL_TRY(connected);
  auto cost = measure_cost(*attachment_.data, options_.rank, options_.size, watch_, deadline_);
  if (cost.code() == Code::timed_out) let_others_speak();
  RONDEL_TRY(cost);
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
  RONDEL_TRY(choose(*hellos));
  RONDEL_TRY(exchange_addresses(open(look_around(*hellos, options_.rank))));
  RONDEL_TRY(connect());
  return std::move(attachment_);
}

}  // namespace

liveness::Context context_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return hash;
}

Status connect_watched(Endpoint& endpoint, std::span<const Bytes> addresses, std::span<const Rank> peers,
                       const liveness::Watch& watch, Deadline deadline) {
  for (;;) {
    Status connected = endpoint.connect(addresses, peers, Deadline::in(kConnectSlice).or_before(deadline));
    if (connected.code() != Code::timed_out || deadline.passed() || watch.raised()) return connected;
  }
}

Result<Attachment> bootstrap(Job& job, const CommunicatorOptions& options, Exchange& exchange,
                             const liveness::Watch& watch, Deadline deadline) {
  return Bootstrap(job, options, exchange, watch, deadline).run();
}

}  // namespace rondel
