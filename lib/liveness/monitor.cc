// SPDX-License-Identifier: Apache-2.0
#include "lib/liveness/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace rondel::liveness {
namespace {

enum class Life : std::uint8_t { alive, left, dead };

struct RankState {
  MemberId member = 0;
  std::string host;
  std::uint64_t entered = 0;
  Life life = Life::alive;
};

struct Suspicion {
  Rank reporter = kNoRank;
  Rank peer = kNoRank;
  std::string evidence;
  TimePoint due;
};

struct Lateness {
  Rank reporter = kNoRank;
  Rank peer = kNoRank;
  std::uint64_t sequence = 0;
  std::string operation;
  TimePoint asked;
  TimePoint due;
};

struct ContextState {
  Context context = 0;
  Rank size = 0;
  std::map<Rank, RankState> ranks;
  std::optional<Incident> incident;
  std::vector<Suspicion> suspicions;
  std::optional<Lateness> lateness;

  RankState* find(Rank rank) {
    const auto found = ranks.find(rank);
    return found == ranks.end() ? nullptr : &found->second;
  }
  std::string who(Rank rank) const {
    const auto found = ranks.find(rank);
    if (found == ranks.end() || found->second.host.empty()) return fmt::format("rank {}", rank);
    return fmt::format("rank {} (host {})", rank, found->second.host);
  }
  /// Everybody came and went: nobody is left to be told anything.
  bool over() const {
    const auto gone = [](const auto& entry) { return entry.second.life != Life::alive; };
    return ranks.size() == static_cast<std::size_t>(size) && std::all_of(ranks.begin(), ranks.end(), gone);
  }
};

struct MemberState {
  std::map<Context, Rank> ranks;
  TimePoint heard = TimePoint::min();
};

Incident incident_of(const ContextState& context, Code code, Rank guilty, std::string cause,
                     std::string hint) {
  Incident incident{context.context, code, guilty, {}, std::move(cause), std::move(hint)};
  const auto found = context.ranks.find(guilty);
  if (found != context.ranks.end()) incident.host = found->second.host;
  return incident;
}

Incident departure_of(const ContextState& context, Rank peer, Rank reporter) {
  return incident_of(context, Code::peer_left, peer,
                     fmt::format("{} left the communicator while {} still needed it", context.who(peer),
                                 context.who(reporter)),
                     "let every rank make the same calls before it finishes");
}

/// The suspicion to believe. A rank that gives up one link closes all of them, and is then suspected by its
/// other peers, whose word may come before its own: of a rank that suspects another one, its word counts.
const Suspicion& origin_of(const ContextState& context, const Suspicion& first) {
  const Suspicion* origin = &first;
  for (std::size_t steps = 0; steps < context.suspicions.size(); ++steps) {
    const auto own = std::find_if(context.suspicions.begin(), context.suspicions.end(),
                                  [origin](const Suspicion& one) { return one.reporter == origin->peer; });
    if (own == context.suspicions.end() || own->peer == origin->reporter)
      break;  // two that blame one another
    origin = &*own;
  }
  return *origin;
}

/// "allreduce" becomes "allreduce #17"; a description that has its number already, or none, is kept.
std::string numbered(const Lateness& late) {
  if (late.sequence == 0 || late.operation.find('#') != std::string::npos) return late.operation;
  return fmt::format("{} #{}", late.operation.empty() ? "operation" : late.operation, late.sequence);
}

}  // namespace

struct Monitor::State {
  std::map<Context, ContextState> contexts;
  std::map<MemberId, MemberState> members;

  ContextState* context_of(MemberId member, Context context, Rank* rank = nullptr) {
    const auto found = members.find(member);
    if (found == members.end()) return nullptr;
    const auto entry = found->second.ranks.find(context);
    if (entry == found->second.ranks.end()) return nullptr;
    if (rank != nullptr) *rank = entry->second;
    return &contexts.at(context);
  }

  /// The first incident of a context is its only one.
  static void decide(ContextState& context, Incident incident, Instructions& out) {
    if (context.incident) return;
    context.incident = std::move(incident);
    context.suspicions.clear();
    context.lateness.reset();
    for (const auto& [rank, state] : context.ranks)
      if (state.life == Life::alive)
        out.push_back({state.member, Instruction::Kind::incident, *context.incident});
  }

  void forget_if_over(Context context) {
    const auto found = contexts.find(context);
    if (found != contexts.end() && found->second.over()) contexts.erase(found);
  }

  void leave(MemberId member, Context id, Instructions& out);
  Incident verdict(const ContextState& context, const Lateness& late) const;
  std::optional<Incident> absent(const ContextState& context, const Lateness& late) const;
};

Monitor::Monitor() : state_(std::make_unique<State>()) {}
Monitor::~Monitor() = default;

Monitor::Instructions Monitor::joined(MemberId member, Context id, Rank rank, Rank size, std::string host) {
  Instructions out;
  state_->leave(member, id, out);  // nothing, unless it joins again
  const auto [at, created] = state_->contexts.try_emplace(id);
  ContextState& context = at->second;
  if (created) {
    context.context = id;
    context.size = size;
  }
  const RankState* before = context.find(rank);
  const bool twice = before != nullptr && before->life == Life::alive && before->member != member;
  const std::string first_host = twice ? before->host : std::string();
  if (!twice) {
    context.ranks[rank] = RankState{member, host, 0, Life::alive};
    state_->members[member].ranks[id] = rank;
  }
  if (context.lateness && !twice)
    out.push_back({member, Instruction::Kind::poll, {}});  // it is asked like the others
  if (context.incident) {
    out.push_back({member, Instruction::Kind::incident, *context.incident});
  } else if (twice) {
    Incident clash =
        incident_of(context, Code::mismatch, rank,
                    fmt::format("two processes are rank {}, on hosts {} and {}", rank, first_host, host),
                    "give every process a rank of its own");
    out.push_back({member, Instruction::Kind::incident, clash});
    State::decide(context, std::move(clash), out);
  } else if (context.size != size) {
    State::decide(context,
                  incident_of(context, Code::mismatch, rank,
                              fmt::format("{} says that there are {} ranks, others that there are {}",
                                          context.who(rank), size, context.size),
                              "start every rank with the same size"),
                  out);
  }
  return out;
}

void Monitor::State::leave(MemberId member, Context id, Instructions& out) {
  Rank rank = kNoRank;
  ContextState* context = context_of(member, id, &rank);
  if (context == nullptr) return;
  context->find(rank)->life = Life::left;
  for (const Suspicion& suspicion : context->suspicions)
    if (suspicion.peer == rank) {
      decide(*context, departure_of(*context, rank, suspicion.reporter), out);
      break;
    }
  members[member].ranks.erase(id);
  forget_if_over(id);
}

Monitor::Instructions Monitor::left(MemberId member, Context context) {
  Instructions out;
  state_->leave(member, context, out);
  return out;
}

Monitor::Instructions Monitor::goodbye(MemberId member) {
  Instructions out;
  const auto ranks = state_->members[member].ranks;  // a copy: leaving takes them out
  for (const auto& [context, rank] : ranks) state_->leave(member, context, out);
  state_->members.erase(member);
  return out;
}

Monitor::Instructions Monitor::beat(MemberId member, const std::vector<Progress>& progress, TimePoint now) {
  state_->members[member].heard = now;
  for (const Progress& one : progress) {
    Rank rank = kNoRank;
    ContextState* context = state_->context_of(member, one.context, &rank);
    if (context != nullptr) context->find(rank)->entered = one.entered;
  }
  return {};
}

Monitor::Instructions Monitor::report(MemberId member, Incident incident) {
  Instructions out;
  ContextState* context = state_->context_of(member, incident.context);
  if (context == nullptr) return out;
  const RankState* guilty = context->find(incident.guilty);
  if (guilty != nullptr && incident.host.empty()) incident.host = guilty->host;
  State::decide(*context, std::move(incident), out);
  return out;
}

Monitor::Instructions Monitor::suspect(MemberId member, Context id, Rank peer, std::string evidence,
                                       TimePoint now) {
  Instructions out;
  Rank reporter = kNoRank;
  ContextState* context = state_->context_of(member, id, &reporter);
  if (context == nullptr || context->incident) return out;
  state_->members[member].heard = now;
  const RankState* suspected = context->find(peer);
  if (suspected != nullptr && suspected->life == Life::left)
    State::decide(*context, departure_of(*context, peer, reporter), out);
  else
    context->suspicions.push_back({reporter, peer, std::move(evidence), now + kVerdictGrace});
  return out;
}

Monitor::Instructions Monitor::overdue(MemberId member, Context id, Rank peer, std::uint64_t sequence,
                                       std::string operation, TimePoint now) {
  Instructions out;
  Rank reporter = kNoRank;
  ContextState* context = state_->context_of(member, id, &reporter);
  if (context == nullptr || context->incident) return out;
  state_->members[member].heard = now;
  auto& late = context->lateness;
  if (late && late->sequence <= sequence) return out;
  const bool asked_before = late.has_value();
  const TimePoint asked = asked_before ? late->asked : now;
  late = Lateness{reporter, peer, sequence, std::move(operation), asked, asked + kPollGrace};
  for (const auto& [rank, state] : context->ranks)
    if (!asked_before && state.life == Life::alive)
      out.push_back({state.member, Instruction::Kind::poll, {}});
  return out;
}

Monitor::Instructions Monitor::disconnected(MemberId member, const std::string& why) {
  Instructions out;
  const auto found = state_->members.find(member);
  if (found == state_->members.end()) return out;
  const auto ranks = std::move(found->second.ranks);
  state_->members.erase(found);
  for (const auto& [id, rank] : ranks) {
    ContextState& context = state_->contexts.at(id);
    context.find(rank)->life = Life::dead;
    const std::string cause =
        why.empty()
            ? fmt::format("{} died: its process ended without leaving", context.who(rank))
            : fmt::format("{} is lost: its connection to the job server broke: {}", context.who(rank), why);
    const char* hint =
        why.empty() ? "its own output may say why" : "see whether its host is up and can be reached";
    State::decide(context, incident_of(context, Code::peer_lost, rank, cause, hint), out);
    state_->forget_if_over(id);
  }
  return out;
}

/// Who is not there at all, or can not say so.
std::optional<Incident> Monitor::State::absent(const ContextState& context, const Lateness& late) const {
  for (const auto& [rank, state] : context.ranks)
    if (state.life == Life::alive && members.at(state.member).heard < late.asked)
      return incident_of(context, Code::timed_out, rank,
                         fmt::format("{} does not answer (stopped or unreachable)", context.who(rank)),
                         "look whether its process is stopped and its host reachable");
  Rank expected = 0;
  for (const auto& [rank, state] : context.ranks) expected += rank == expected ? 1 : 0;
  if (expected < context.size)
    return incident_of(context, Code::timed_out, expected,
                       fmt::format("rank {} never joined this communicator", expected),
                       "look whether it was started and created the communicator");
  return std::nullopt;
}

Incident Monitor::State::verdict(const ContextState& context, const Lateness& late) const {
  if (auto missing = absent(context, late)) return std::move(*missing);
  const std::string operation = numbered(late);
  const std::pair<const Rank, RankState>* last = nullptr;
  for (const auto& entry : context.ranks) {
    if (entry.second.entered >= late.sequence) continue;
    if (entry.second.life == Life::left) return departure_of(context, entry.first, late.reporter);
    if (last == nullptr || entry.second.entered < last->second.entered) last = &entry;
  }
  if (last != nullptr)
    return incident_of(
        context, Code::timed_out, last->first,
        fmt::format("{} has not entered {}; it is at #{}", context.who(last->first), operation,
                    last->second.entered),
        "all ranks must make the same calls; raise RONDEL_TIMEOUT_S if this one only needs longer");
  const auto peer = context.ranks.find(late.peer);
  if (peer == context.ranks.end())
    return incident_of(context, Code::timed_out, kNoRank,
                       fmt::format("{} timed out on {} although every rank has entered it", operation,
                                   context.who(late.reporter)),
                       "raise RONDEL_TIMEOUT_S if the operation only needs longer");
  if (peer->second.life == Life::left) return departure_of(context, late.peer, late.reporter);
  if (late.sequence == 0)
    return incident_of(
        context, Code::timed_out, late.peer,
        fmt::format("{} has not answered {} of {} with a matching call; its newest collective is #{}",
                    context.who(late.peer), operation, context.who(late.reporter), peer->second.entered),
        "each send needs a recv of the same count and type, and each recv a send; raise RONDEL_TIMEOUT_S if "
        "the peer only needs longer");
  return incident_of(
      context, Code::timed_out, late.peer,
      fmt::format("{} has entered {}, but what {} waits for did not arrive from it", context.who(late.peer),
                  operation, context.who(late.reporter)),
      "look at the network between the two (firewall, MTU); raise RONDEL_TIMEOUT_S if it is only slow");
}

Monitor::Instructions Monitor::tick(TimePoint now) {
  Instructions out;
  for (auto& [id, context] : state_->contexts) {
    if (context.lateness && context.lateness->due <= now)
      State::decide(context, state_->verdict(context, *context.lateness), out);
    const auto due = std::find_if(context.suspicions.begin(), context.suspicions.end(),
                                  [now](const Suspicion& one) { return one.due <= now; });
    if (due == context.suspicions.end()) continue;
    const Suspicion& origin = origin_of(context, *due);
    const std::string between =
        fmt::format("between {} and {}", context.who(origin.reporter), context.who(origin.peer));
    State::decide(
        context,
        incident_of(context, Code::peer_lost, origin.peer,
                    fmt::format("the connection {} broke: {}", between, origin.evidence),
                    "look at the network between the two; where only large messages do not pass, at the MTU"),
        out);
  }
  return out;
}

TimePoint Monitor::next_tick() const {
  TimePoint next = TimePoint::max();
  for (const auto& [id, context] : state_->contexts) {
    if (context.lateness) next = std::min(next, context.lateness->due);
    for (const Suspicion& suspicion : context.suspicions) next = std::min(next, suspicion.due);
  }
  return next;
}

}  // namespace rondel::liveness
