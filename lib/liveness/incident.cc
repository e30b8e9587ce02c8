// SPDX-License-Identifier: Apache-2.0
#include "lib/liveness/incident.h"

#include "lib/wire.h"

namespace rondel::liveness {
namespace {
constexpr std::size_t kCauseLimit = 4096;
constexpr std::size_t kHintLimit = 1024;
}  // namespace

Bytes encode(const Incident& incident) {
  wire::Writer writer;
  writer.number(incident.context).number(static_cast<std::uint8_t>(incident.code));
  writer.number(static_cast<std::uint32_t>(incident.guilty));
  writer.text(std::string_view(incident.host).substr(0, kHostLimit));
  writer.text(std::string_view(incident.cause).substr(0, kCauseLimit));
  writer.text(std::string_view(incident.hint).substr(0, kHintLimit));
  return writer.take();
}

Result<Incident> decode_incident(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  Incident incident;
  incident.context = reader.number<std::uint64_t>();
  const auto code = reader.number<std::uint8_t>();
  incident.guilty = static_cast<Rank>(reader.number<std::uint32_t>());
  incident.host = reader.text(kHostLimit);
  incident.cause = reader.text(kCauseLimit);
  incident.hint = reader.text(kHintLimit);
  const bool failure = code > static_cast<std::uint8_t>(Code::ok) && code < kCodeCount;
  if (!reader.finished() || !failure || incident.guilty < kNoRank)
    return Status(Code::refused, "a malformed incident on a liveness connection");
  incident.code = static_cast<Code>(code);
  return incident;
}

}  // namespace rondel::liveness
