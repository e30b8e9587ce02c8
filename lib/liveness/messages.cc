// SPDX-License-Identifier: Apache-2.0
#include "lib/liveness/messages.h"

#include <algorithm>

#include "lib/wire.h"

namespace rondel::liveness {
namespace {

constexpr std::size_t kEvidenceLimit = 2048;
constexpr std::size_t kOperationLimit = 512;
constexpr std::size_t kProgressLimit = (kMessageLimit - 8) / 16;  // contexts of one beat

enum class Kind : std::uint8_t { join = 1, leave, beat, incident, suspect, overdue, goodbye, poll };

wire::Writer writer_of(Kind kind) {
  wire::Writer writer;
  writer.number(static_cast<std::uint8_t>(kind));
  return writer;
}

std::uint32_t bits(Rank rank) { return static_cast<std::uint32_t>(rank); }
Rank read_rank(wire::Reader& reader) { return static_cast<Rank>(reader.number<std::uint32_t>()); }

Bytes write(const Join& join) {
  auto writer = writer_of(Kind::join);
  writer.number(join.context).number(bits(join.rank)).number(bits(join.size));
  return writer.text(std::string_view(join.host).substr(0, kHostLimit)).take();
}
Bytes write(const Leave& leave) { return writer_of(Kind::leave).number(leave.context).take(); }
Bytes write(const Beat& beat) {
  auto writer = writer_of(Kind::beat);
  const std::size_t count = std::min(beat.progress.size(), kProgressLimit);
  writer.number(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i)
    writer.number(beat.progress[i].context).number(beat.progress[i].entered);
  return writer.take();
}
Bytes write(const Incident& incident) { return writer_of(Kind::incident).raw(encode(incident)).take(); }
Bytes write(const Suspect& suspect) {
  auto writer = writer_of(Kind::suspect);
  writer.number(suspect.context).number(bits(suspect.peer));
  return writer.text(std::string_view(suspect.evidence).substr(0, kEvidenceLimit)).take();
}
Bytes write(const Overdue& overdue) {
  auto writer = writer_of(Kind::overdue);
  writer.number(overdue.context).number(bits(overdue.peer)).number(overdue.sequence);
  return writer.text(std::string_view(overdue.operation).substr(0, kOperationLimit)).take();
}
Bytes write(const Goodbye&) { return writer_of(Kind::goodbye).take(); }
Bytes write(const Poll&) { return writer_of(Kind::poll).take(); }

Beat read_beat(wire::Reader& reader) {
  Beat beat;
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.good(); ++i) {
    Progress progress;
    progress.context = reader.number<std::uint64_t>();
    progress.entered = reader.number<std::uint64_t>();
    if (reader.good()) beat.progress.push_back(progress);
  }
  return beat;
}

Join read_join(wire::Reader& reader) {
  Join join;
  join.context = reader.number<std::uint64_t>();
  join.rank = read_rank(reader);
  join.size = read_rank(reader);
  join.host = reader.text(kHostLimit);
  return join;
}

Suspect read_suspect(wire::Reader& reader) {
  Suspect suspect;
  suspect.context = reader.number<std::uint64_t>();
  suspect.peer = read_rank(reader);
  suspect.evidence = reader.text(kEvidenceLimit);
  return suspect;
}

Overdue read_overdue(wire::Reader& reader) {
  Overdue overdue;
  overdue.context = reader.number<std::uint64_t>();
  overdue.peer = read_rank(reader);
  overdue.sequence = reader.number<std::uint64_t>();
  overdue.operation = reader.text(kOperationLimit);
  return overdue;
}

Status malformed() { return Status(Code::refused, "a malformed message on a liveness connection"); }

template <class Message>
Result<ToServer> whole(const wire::Reader& reader, Message message) {
  if (!reader.finished()) return malformed();
  return ToServer(std::move(message));
}

}  // namespace

Bytes encode(const ToServer& message) {
  return std::visit([](const auto& one) { return write(one); }, message);
}

Bytes encode(const ToMember& message) {
  return std::visit([](const auto& one) { return write(one); }, message);
}

Result<ToServer> decode_to_server(std::span<const std::byte> body) {
  wire::Reader reader(body);
  switch (static_cast<Kind>(reader.number<std::uint8_t>())) {
    case Kind::join: {
      const Join join = read_join(reader);
      if (join.rank < 0 || join.rank >= join.size) return malformed();
      return whole(reader, join);
    }
    case Kind::leave: {
      const Leave leave{reader.number<std::uint64_t>()};
      return whole(reader, leave);
    }
    case Kind::beat: {
      Beat beat = read_beat(reader);
      return whole(reader, std::move(beat));
    }
    case Kind::incident: {
      auto incident = decode_incident(body.subspan(1));
      if (!incident.ok()) return std::move(incident).status();
      return ToServer(std::move(*incident));
    }
    case Kind::suspect: {
      const Suspect suspect = read_suspect(reader);
      if (suspect.peer < kNoRank) return malformed();
      return whole(reader, suspect);
    }
    case Kind::overdue: {
      const Overdue overdue = read_overdue(reader);
      if (overdue.peer < kNoRank) return malformed();
      return whole(reader, overdue);
    }
    case Kind::goodbye:
      return whole(reader, Goodbye{});
    case Kind::poll:
      break;
  }
  return malformed();
}

Result<ToMember> decode_to_member(std::span<const std::byte> body) {
  wire::Reader reader(body);
  const auto kind = static_cast<Kind>(reader.number<std::uint8_t>());
  if (kind == Kind::poll && reader.finished()) return ToMember(Poll{});
  if (kind != Kind::incident) return malformed();
  auto incident = decode_incident(body.subspan(1));
  if (!incident.ok()) return std::move(incident).status();
  return ToMember(std::move(*incident));
}

}  // namespace rondel::liveness
