// SPDX-License-Identifier: Apache-2.0
#include "ring/introduction.h"

#include <fmt/format.h>

#include <utility>

#include "lib/wire.h"

namespace rondel {
namespace {

constexpr std::size_t kTextLimit = 4096;
constexpr std::size_t kOffersLimit = 64 * 1024;

Status damaged(Rank rank) {
  return Status(Code::refused, fmt::format("rank {} sent a damaged introduction", rank),
                "run the same build of Rondel on every rank");
}

}  // namespace

Bytes encode(const Hello& hello) {
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
  if (!reader.finished()) return damaged(rank);
  return hello;
}

Status can_not_start(Rank rank, const std::string& host, const Status& why) {
  Failure failure = why.failure();
  failure.cause = fmt::format("rank {} on {} can not start: {}", rank, host, failure.cause);
  failure.peer = rank;
  failure.host = host;
  return Status(why.code(), std::move(failure));
}

Bytes encode(const Answer& answer) {
  wire::Writer writer;
  writer.number(static_cast<std::uint8_t>(answer.opened.code()));
  writer.text(answer.opened.failure().cause).text(answer.opened.failure().hint);
  writer.number(static_cast<std::uint32_t>(answer.unreached.size()));
  for (const Rank rank : answer.unreached) writer.number(static_cast<std::uint32_t>(rank));
  writer.text(answer.why_unreached).blob(answer.data).blob(answer.pairs);
  return writer.take();
}

Result<Answer> decode_answer(const Bytes& bytes, Rank rank, const std::string& host) {
  wire::Reader reader(bytes);
  const auto code = static_cast<Code>(reader.number<std::uint8_t>());
  const std::string cause = reader.text(kTextLimit), hint = reader.text(kTextLimit);
  Answer answer;
  if (static_cast<std::size_t>(code) >= kCodeCount) return damaged(rank);
  if (code != Code::ok) answer.opened = can_not_start(rank, host, Status(code, cause, hint));
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.good(); ++i)
    answer.unreached.push_back(static_cast<Rank>(reader.number<std::uint32_t>()));
  answer.why_unreached = reader.text(kTextLimit);
  const auto data = reader.blob(kOffersLimit), pairs = reader.blob(kOffersLimit);
  answer.data.assign(data.begin(), data.end());
  answer.pairs.assign(pairs.begin(), pairs.end());
  if (!reader.finished()) return damaged(rank);
  return answer;
}

}  // namespace rondel
