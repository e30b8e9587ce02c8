// SPDX-License-Identifier: Apache-2.0
#include "lib/store/protocol.h"

#include "lib/wire.h"

namespace rondel::store {
namespace {

enum class Kind : std::uint8_t { set = 1, get, add, wait, missing };

Status malformed() { return Status(Code::refused, "a malformed message on a store connection"); }

void write_keys(wire::Writer& writer, std::span<const std::string> keys) {
  writer.number(static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) writer.text(key);
}

/// The count is not believed: keys are taken while their bytes are there.
std::vector<std::string> read_keys(wire::Reader& reader) {
  std::vector<std::string> keys;
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.good(); ++i) {
    std::string key = reader.text(kStoreKeyLimit);
    if (reader.good()) keys.push_back(std::move(key));
  }
  return keys;
}

struct RequestWriter {
  wire::Writer& writer;
  wire::Writer& kind(Kind kind) const { return writer.number(static_cast<std::uint8_t>(kind)); }

  void operator()(const SetRequest& set) const { kind(Kind::set).text(set.key).blob(set.value); }
  void operator()(const GetRequest& get) const { kind(Kind::get).text(get.key); }
  void operator()(const AddRequest& add) const {
    kind(Kind::add).text(add.key).number(static_cast<std::uint64_t>(add.increment));
  }
  void operator()(const WaitRequest& wait) const { write_keys(kind(Kind::wait), wait.keys); }
  void operator()(const MissingRequest& missing) const { write_keys(kind(Kind::missing), missing.keys); }
};

}  // namespace

Bytes encode(const Request& request) {
  wire::Writer writer;
  writer.number(request.id);
  std::visit(RequestWriter{writer}, request.what);
  return writer.take();
}

Result<Request> decode_request(std::span<const std::byte> body) {
  wire::Reader reader(body);
  Request request;
  request.id = reader.number<std::uint32_t>();
  switch (static_cast<Kind>(reader.number<std::uint8_t>())) {
    case Kind::set: {
      SetRequest set{reader.text(kStoreKeyLimit), {}};
      const auto value = reader.blob(kStoreValueLimit);
      set.value.assign(value.begin(), value.end());
      request.what = std::move(set);
      break;
    }
    case Kind::get:
      request.what = GetRequest{reader.text(kStoreKeyLimit)};
      break;
    case Kind::add: {
      AddRequest add{reader.text(kStoreKeyLimit), 0};
      add.increment = static_cast<std::int64_t>(reader.number<std::uint64_t>());
      request.what = std::move(add);
      break;
    }
    case Kind::wait:
      request.what = WaitRequest{read_keys(reader)};
      break;
    case Kind::missing:
      request.what = MissingRequest{read_keys(reader)};
      break;
    default:
      return malformed();
  }
  if (!reader.finished()) return malformed();
  return request;
}

Bytes encode(const Reply& reply) {
  constexpr std::size_t kCauseSent = 1024;
  wire::Writer writer;
  writer.number(reply.id).number(static_cast<std::uint8_t>(reply.code)).blob(reply.value);
  return writer.text(std::string_view(reply.cause).substr(0, kCauseSent)).take();
}

Result<Reply> decode_reply(std::span<const std::byte> body) {
  wire::Reader reader(body);
  Reply reply;
  reply.id = reader.number<std::uint32_t>();
  const auto code = reader.number<std::uint8_t>();
  const auto value = reader.blob(kFrameLimit);
  reply.value.assign(value.begin(), value.end());
  reply.cause = reader.text(kFrameLimit);
  if (!reader.finished() || code >= kCodeCount) return malformed();
  reply.code = static_cast<Code>(code);
  return reply;
}

Bytes encode_sum(std::int64_t sum) { return wire::Writer().number(static_cast<std::uint64_t>(sum)).take(); }

Result<std::int64_t> decode_sum(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  const auto sum = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  if (!reader.finished()) return malformed();
  return sum;
}

Bytes encode_keys(std::span<const std::string> keys) {
  wire::Writer writer;
  write_keys(writer, keys);
  return writer.take();
}

Result<std::vector<std::string>> decode_keys(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  auto keys = read_keys(reader);
  if (!reader.finished()) return malformed();
  return keys;
}

}  // namespace rondel::store
