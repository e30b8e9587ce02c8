// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent_protocol.h"

#include <signal.h>

#include <utility>

#include "lib/auth.h"
#include "lib/wire.h"

namespace rondel::agent {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLongText = kFrameLimit;  // what fits in a frame may be in it
constexpr std::size_t kShortText = 4096;

/// Appends fields; what a field's type is decides how it is written.
class FieldWriter {
 public:
  template <class... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }
  explicit FieldWriter(std::uint8_t kind) { writer_.number(kind); }
  Bytes take() { return writer_.take(); }

  void put(bool value) { writer_.number(static_cast<std::uint8_t>(value)); }
  void put(std::uint16_t value) { writer_.number(value); }
  void put(std::uint32_t value) { writer_.number(value); }
  void put(std::uint64_t value) { writer_.number(value); }
  void put(std::int32_t value) { writer_.number(static_cast<std::uint32_t>(value)); }
  void put(Stream value) { writer_.number(static_cast<std::uint8_t>(value)); }
  void put(Input value) { writer_.number(static_cast<std::uint8_t>(value)); }
  void put(const BindingRules& rules) {
    writer_.number(static_cast<std::uint8_t>(rules.to)).number(static_cast<std::uint8_t>(rules.by));
    put(rules.overload);
  }
  void put(milliseconds value) { writer_.number(static_cast<std::uint64_t>(value.count())); }
  void put(const std::string& text) { writer_.text(text); }
  void put(const Bytes& bytes) { writer_.blob(bytes); }
  void put(const RankPlace& place) {
    (*this)(place.rank, place.size, place.local_rank, place.local_size,
            static_cast<std::uint32_t>(place.host), place.cross_rank, place.cross_size);
  }
  void put(const ProbeTarget& one) { (*this)(one.host, one.store, one.addresses); }
  void put(const Attempt& one) { (*this)(one.host, one.store, one.address, one.reached, one.why_not); }
  void put(const RankEnding& one) { (*this)(one.rank, one.ending.code, one.ending.signal); }
  void put(const std::set<std::string, std::less<>>& names) {
    put(std::vector<std::string>(names.begin(), names.end()));
  }
  template <class Item>
  void put(const std::vector<Item>& items) {
    put(static_cast<std::uint32_t>(items.size()));
    for (const Item& item : items) put(item);
  }

 private:
  wire::Writer writer_;
};

/// Fills fields in the same order. Lists grow item by item, so that a count alone allocates nothing.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : reader_(bytes) {}

  template <class... Fields>
  void operator()(Fields&... fields) {
    (get(fields), ...);
  }
  bool finished() const { return good_ && reader_.finished(); }
  bool good() const { return good_ && reader_.good(); }

  void get(bool& value) { value = small(2) == 1; }
  void get(std::uint16_t& value) { value = reader_.number<std::uint16_t>(); }
  void get(std::uint32_t& value) { value = reader_.number<std::uint32_t>(); }
  void get(std::uint64_t& value) { value = reader_.number<std::uint64_t>(); }
  void get(std::int32_t& value) { value = static_cast<std::int32_t>(reader_.number<std::uint32_t>()); }
  void get(Stream& value) { value = static_cast<Stream>(small(kStreams)); }
  void get(Input& value) { value = static_cast<Input>(small(3)); }
  void get(BindingRules& rules) {
    rules.to = static_cast<BindTo>(small(kBindings));
    rules.by = static_cast<TakeBy>(small(kOrders));
    get(rules.overload);
  }
  void get(milliseconds& value) {
    constexpr std::uint64_t kMost = 1'000'000'000'000;
    const auto count = reader_.number<std::uint64_t>();
    good_ = good_ && count <= kMost;
    value = milliseconds(good_ ? static_cast<std::int64_t>(count) : 0);
  }
  void get(std::string& text) { text = reader_.text(kLongText); }
  void get(Bytes& bytes) {
    const auto blob = reader_.blob(kLongText);
    bytes.assign(blob.begin(), blob.end());
  }
  void get(RankPlace& place) {
    std::uint32_t host = 0;
    (*this)(place.rank, place.size, place.local_rank, place.local_size, host, place.cross_rank,
            place.cross_size);
    place.host = host;
  }
  void get(ProbeTarget& one) { (*this)(one.host, one.store, one.addresses); }
  void get(Attempt& one) { (*this)(one.host, one.store, one.address, one.reached, one.why_not); }
  void get(RankEnding& one) {
    (*this)(one.rank, one.ending.code, one.ending.signal);
    const auto within = [](int value, int most) { return value >= 0 && value <= most; };
    good_ = good_ && within(one.ending.code, 255) && within(one.ending.signal, SIGRTMAX);
  }
  void get(std::set<std::string, std::less<>>& names) {
    std::vector<std::string> list;
    get(list);
    names.insert(list.begin(), list.end());
  }
  template <class Item>
  void get(std::vector<Item>& items) {
    std::uint32_t count = 0;
    get(count);
    for (; count > 0 && good(); --count) get(items.emplace_back());
  }
  void get_short(std::string& text) { text = reader_.text(kShortText); }

 private:
  std::uint8_t small(std::size_t below) {
    const auto value = reader_.number<std::uint8_t>();
    good_ = good_ && value < below;
    return good_ ? value : std::uint8_t{0};
  }

  wire::Reader reader_;
  bool good_ = true;
};

// The fields of each message, for both directions of the wire.
template <class Visit, class Message>
void visit_fields(Visit& visit, Message& m) {
  using M = std::remove_const_t<Message>;
  if constexpr (std::is_same_v<M, Order>)
    visit(m.ranks, m.program, m.environment.variables, m.environment.chosen, m.own_variables, m.search_path,
          m.contact.job, m.contact.master_address, m.contact.master_port, m.stores, m.secret, m.directory,
          m.input, m.input_rank, m.binding, m.output_window, m.grace, m.patience, m.silence);
  else if constexpr (std::is_same_v<M, Signal> || std::is_same_v<M, ClockAsk>)
    visit(m.number);
  else if constexpr (std::is_same_v<M, Finish>)
    visit(m.grace);
  else if constexpr (std::is_same_v<M, Room>)
    visit(m.stream, m.bytes);
  else if constexpr (std::is_same_v<M, InputPiece> || std::is_same_v<M, InputRoom>)
    visit(m.bytes);
  else if constexpr (std::is_same_v<M, Started>)
    visit(m.rank, m.pid, m.cpus);
  else if constexpr (std::is_same_v<M, Output>)
    visit(m.rank, m.stream, m.bytes);
  else if constexpr (std::is_same_v<M, OutputEnd>)
    visit(m.rank, m.stream);
  else if constexpr (std::is_same_v<M, Ended>)
    visit(m.ranks);
  else if constexpr (std::is_same_v<M, StartFailed>)
    visit(m.why);
  else if constexpr (std::is_same_v<M, Joined>)
    visit(m.store);
  else if constexpr (std::is_same_v<M, Hello>)
    visit(m.protocol, m.version, m.host, m.address, m.free_port, m.pid, m.machine);
  else if constexpr (std::is_same_v<M, Examine>)
    visit(m.host, m.secret, m.net, m.ports, m.ranks, m.binding, m.silence);
  else if constexpr (std::is_same_v<M, ClockTell>)
    visit(m.number, m.nanoseconds);
  else if constexpr (std::is_same_v<M, Reach>)
    visit(m.targets, m.patience, m.limit);
  else if constexpr (std::is_same_v<M, Measure>)
    visit(m.host, m.address, m.time, m.limit);
  else if constexpr (std::is_same_v<M, Examined>)
    visit(m.facts);
  else if constexpr (std::is_same_v<M, Reached>)
    visit(m.attempts);
  else if constexpr (std::is_same_v<M, Measured>)
    visit(m.host, m.why_not, m.round_trip_ns, m.bytes, m.bulk_ns, m.path_mtu);
  else
    static_assert(std::is_empty_v<M>, "a message whose fields are not written");
}

template <class Variant>
Bytes encode_any(const Variant& message) {
  FieldWriter writer(static_cast<std::uint8_t>(message.index()));
  std::visit([&writer](const auto& m) { visit_fields(writer, m); }, message);
  return writer.take();
}

template <class Message>
bool read_fields(FieldReader& reader, Message& message) {
  visit_fields(reader, message);
  return reader.finished();
}

bool read_fields(FieldReader& reader, Hello& hello) {
  reader.get(hello.protocol);
  reader.get_short(hello.version);
  reader.get_short(hello.host);
  if (hello.protocol != kProtocol) return reader.good();  // what else it says is not ours to read
  reader.get_short(hello.address);
  reader(hello.free_port, hello.pid);
  reader.get_short(hello.machine);
  return reader.finished();
}

template <class Variant, std::size_t kIndex = 0>
Result<Variant> decode_any(std::uint8_t kind, std::span<const std::byte> fields) {
  if constexpr (kIndex < std::variant_size_v<Variant>) {
    if (kind != kIndex) return decode_any<Variant, kIndex + 1>(kind, fields);
    std::variant_alternative_t<kIndex, Variant> message;
    FieldReader reader(fields);
    if (!read_fields(reader, message)) return Status(Code::refused, "a message with wrong fields");
    return Variant(std::move(message));
  } else {
    return Status(Code::refused, "a message of unknown kind " + std::to_string(kind));
  }
}

template <class Variant>
Result<Variant> decode_body(std::span<const std::byte> body) {
  if (body.empty()) return Status(Code::refused, "an empty message");
  return decode_any<Variant>(static_cast<std::uint8_t>(body.front()), body.subspan(1));
}

Status check(const Order& order) {
  const bool good = !order.program.empty() && order.secret.size() == Secret::kBytes && !order.stores.empty();
  return good ? Status() : Status(Code::refused, "an order without program, secret or store");
}

}  // namespace

Bytes encode(const FromLauncher& message) { return encode_any(message); }
Bytes encode(const FromAgent& message) { return encode_any(message); }

Result<FromLauncher> decode_from_launcher(std::span<const std::byte> body) {
  auto message = decode_body<FromLauncher>(body);
  if (!message.ok()) return message;
  if (const Order* order = std::get_if<Order>(&*message)) RONDEL_TRY(check(*order));
  const Examine* examine = std::get_if<Examine>(&*message);
  if (examine != nullptr && examine->secret.size() != Secret::kBytes)
    return Status(Code::refused, "an examination without secret");
  return message;
}

Result<FromAgent> decode_from_agent(std::span<const std::byte> body) { return decode_body<FromAgent>(body); }

}  // namespace rondel::agent
