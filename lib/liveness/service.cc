// SPDX-License-Identifier: Apache-2.0
#include "lib/liveness/service.h"

#include <utility>

namespace rondel::liveness {
namespace {

std::vector<Outgoing> written(const Monitor::Instructions& instructions) {
  std::vector<Outgoing> out;
  out.reserve(instructions.size());
  for (const Instruction& one : instructions) {
    const bool poll = one.kind == Instruction::Kind::poll;
    out.push_back({one.to, encode(poll ? ToMember(Poll{}) : ToMember(one.incident))});
  }
  return out;
}

}  // namespace

Result<std::vector<Outgoing>> Service::take(MemberId member, std::span<const std::byte> body, TimePoint now) {
  auto message = decode_to_server(body);
  if (!message.ok()) return std::move(message).status();
  return written(dispatch(member, std::move(*message), now));
}

std::vector<Outgoing> Service::gone(MemberId member, const std::string& why) {
  if (const auto found = present_.find(member); found != present_.end()) {
    if (!first_fallen_) first_fallen_ = found->second;
    present_.erase(found);
  }
  return written(monitor_.disconnected(member, why));
}

std::vector<Outgoing> Service::tick(TimePoint now) { return written(monitor_.tick(now)); }

Monitor::Instructions Service::dispatch(MemberId member, ToServer message, TimePoint now) {
  if (auto* join = std::get_if<Join>(&message)) {
    if (!first_) first_ = join->context;
    if (*first_ == join->context) {
      arrived_.insert(join->rank);
      present_[member] = join->rank;
    }
    return monitor_.joined(member, join->context, join->rank, join->size, std::move(join->host));
  }
  if (const auto* leave = std::get_if<Leave>(&message)) {
    if (leave->context == first_) present_.erase(member);
    return monitor_.left(member, leave->context);
  }
  if (const auto* beat = std::get_if<Beat>(&message)) return monitor_.beat(member, beat->progress, now);
  if (auto* incident = std::get_if<Incident>(&message)) return monitor_.report(member, std::move(*incident));
  if (auto* suspect = std::get_if<Suspect>(&message))
    return monitor_.suspect(member, suspect->context, suspect->peer, std::move(suspect->evidence), now);
  if (auto* late = std::get_if<Overdue>(&message))
    return monitor_.overdue(member, late->context, late->peer, late->sequence, std::move(late->operation),
                            now);
  present_.erase(member);
  return monitor_.goodbye(member);
}

}  // namespace rondel::liveness
