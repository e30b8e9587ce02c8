// SPDX-License-Identifier: Apache-2.0
#include "ring/direct.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "lib/deadline.h"
#include "lib/log.h"
#include "lib/reduce.h"
#include "ring/label.h"

namespace rondel {
namespace {

constexpr std::size_t kBlockBytes = 8 * 1024;  // stays in the first cache while it is stored to all
constexpr std::size_t kShareAlignment = 4096;  // no two ranks write to one page
constexpr std::chrono::milliseconds kLeaveLimit{200};

const void* moved(const void* base, std::size_t bytes) { return static_cast<const std::byte*>(base) + bytes; }

void copy(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

/// Where rank's part begins in a buffer of parts, in bytes.
std::size_t part_offset(const CollectiveRequest& request, Rank rank) {
  std::uint64_t elements = 0;
  if (request.counts.empty()) elements = request.count * static_cast<std::uint64_t>(rank);
  for (std::size_t i = 0; i < std::min(request.counts.size(), static_cast<std::size_t>(rank)); ++i)
    elements += request.counts[i];
  return elements * size_of(request.type);
}

std::size_t part_elements(const CollectiveRequest& request, Rank rank) {
  return request.counts.empty() ? request.count : request.counts[static_cast<std::size_t>(rank)];
}

}  // namespace

Direct::Direct(LoadStore& memory, Rank rank, Rank size)
    : memory_(memory),
      rank_(rank),
      size_(size),
      boards_(static_cast<std::size_t>(size)),
      staged_(memory, rank, boards_),
      inputs_(static_cast<std::size_t>(size)),
      outputs_(static_cast<std::size_t>(size)),
      sources_(static_cast<std::size_t>(size)),
      destinations_(static_cast<std::size_t>(size)) {}

Direct::~Direct() { close(); }

bool Direct::runs(const CollectiveRequest& request) {
  switch (request.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
    case CollectiveKind::broadcast:
    case CollectiveKind::barrier:
      return true;
    case CollectiveKind::all_to_all:
      return request.counts.empty();  // how others cut their input is known to them alone
    default:
      return false;
  }
}

Status Direct::open() {
  RONDEL_TRY(memory_.open_board());
  board_ = new (memory_.board().data()) DirectBoard;
  boards_[static_cast<std::size_t>(rank_)] = board_;
  return {};
}

// ---- offering

bool Direct::fits_on_board() const {
  const Footprint& footprint = operation_->footprint;
  const CollectiveRequest& request = operation_->request;
  // Every rank must come to the same answer, so it is made of what the label covers.
  std::uint64_t bytes = request.kind == CollectiveKind::barrier ? 0 : footprint.input_bytes;
  if (request.kind == CollectiveKind::broadcast) bytes = request.count * size_of(request.type);
  if (request.kind == CollectiveKind::all_gather) {
    bytes = 0;
    for (Rank rank = 0; rank < size_; ++rank)
      bytes = std::max<std::uint64_t>(bytes, part_elements(request, rank) * size_of(request.type));
  }
  return bytes <= DirectBoard::kPayloadBytes;
}

void Direct::begin(const Operation& operation) {
  operation_ = &operation;
  ++number_;
  next_ = 0;
  phase_ = Phase::meeting;
  memory_.await(this);
  if (take_boards()) offer();
}

/// Whether all ranks' boards are known. Until then nothing is offered: who reaches this rank's memory by an
/// offer must be seen when this rank gives up.
bool Direct::take_boards() {
  for (; next_ < size_; ++next_) {
    if (board_of(next_) != nullptr) continue;
    auto* const shown = memory_.board_of(next_);
    if (shown == nullptr) return false;
    boards_[static_cast<std::size_t>(next_)] = std::launder(reinterpret_cast<DirectBoard*>(shown));
  }
  return true;
}

void Direct::offer() {
  next_ = 0;
  phase_ = Phase::gathering;
  const Operation& operation = *operation_;
  DirectBoard::Slot& slot = board_->slots[number_ % 2];
  slot.label = operation.label;
  const Footprint& touched = operation.footprint;
  const bool gives = operation.request.kind != CollectiveKind::broadcast || operation.request.root == rank_;
  const std::size_t given = gives ? touched.input_bytes : 0;
  reachable_ = true;
  if (fits_on_board()) {
    std::byte* const payload = given <= DirectBoard::kTinyBytes ? slot.tiny : slot.payload;
    if (given > 0) std::memcpy(payload, operation.request.input, given);
  } else {
    slot.memory = {};
    if (given > 0) slot.memory.input = memory_.share(operation.request.input, given);
    if (operation.request.kind == CollectiveKind::all_reduce)
      slot.memory.output = touched.in_place ? slot.memory.input
                                            : memory_.share(operation.request.output, touched.output_bytes);
    reachable_ = (given == 0 || slot.memory.input.region != 0) &&
                 (operation.request.kind != CollectiveKind::all_reduce || slot.memory.output.region != 0);
  }
  slot.reachable = reachable_ ? 1 : 0;
  slot.number.store(number_, std::memory_order_release);  // pairs with offered()
  memory_.published();
}

bool Direct::offered(Rank rank) const {
  const DirectBoard* const board = board_of(rank);
  return board != nullptr &&
         board->slots[number_ % 2].number.load(std::memory_order_acquire) >= number_;  // pairs with offer()
}

// A rank that is at this operation, or beyond, by other means will never come.
bool Direct::is_elsewhere(Rank rank) const {
  const DirectBoard* const board = board_of(rank);
  return board != nullptr && board->elsewhere.load(std::memory_order_acquire) >=
                                 operation_->sequence;  // pairs with note_elsewhere()
}

bool Direct::has_closed(Rank rank) const {
  const DirectBoard* const board = board_of(rank);
  return board != nullptr && board->closed.load(std::memory_order_seq_cst) != 0;  // pairs with close()
}

bool Direct::stands_ready(Rank rank) const {
  if (board_of(rank) == nullptr) return memory_.board_of(rank) != nullptr;
  if (has_closed(rank)) return true;
  if (phase_ != Phase::finishing) return offered(rank) || is_elsewhere(rank);
  return board_of(rank)->done.load(std::memory_order_acquire) >= number_;  // pairs with start_work()
}

bool Direct::ready() const {
  if (phase_ == Phase::staging) return staged_.ready();
  return phase_ == Phase::idle || next_ >= size_ || stands_ready(next_);
}

bool Direct::waits_for(Rank rank) const {
  if (phase_ == Phase::staging) return staged_.lags(rank);
  return phase_ != Phase::idle && !stands_ready(rank);
}

void Direct::note_elsewhere(const Operation& operation) {
  if (board_ == nullptr) return;
  for (std::size_t i = 0; i < 2; ++i)
    board_->elsewhere_label[i].store(operation.label.words[i], std::memory_order_relaxed);
  board_->elsewhere.store(operation.sequence, std::memory_order_release);  // pairs with is_elsewhere()
  memory_.published();
}

Status Direct::differ(Rank peer, const Label& theirs) {
  mismatch_ = {peer, operation_->label, theirs, 0, 0};
  return Status(Code::mismatch, "the ranks do not mean the same operation");
}

// ---- working

Result<Direct::State> Direct::advance() {
  if (phase_ == Phase::staging) return advance_staged();
  if (phase_ == Phase::meeting && !take_boards()) return State::waiting;
  if (phase_ == Phase::meeting) offer();
  for (; next_ < size_; ++next_) {
    // A line that peers have read is gone from here, and to read it back takes as long as to read one of
    // theirs.
    if (next_ == rank_) continue;
    // First whether it went on, then whether it has come: it does both in the other order.
    const bool closed = has_closed(next_), elsewhere = is_elsewhere(next_);
    if (phase_ == Phase::finishing) {
      if (board_of(next_)->done.load(std::memory_order_acquire) >= number_)
        continue;  // pairs with start_work()
      return closed ? Result<State>(lost(next_)) : State::waiting;
    }
    if (offered(next_)) {
      if (slot_of(next_).label != operation_->label) return differ(next_, slot_of(next_).label);
    } else if (elsewhere) {
      const auto& words = board_of(next_)->elsewhere_label;
      return differ(next_,
                    {{words[0].load(std::memory_order_relaxed), words[1].load(std::memory_order_relaxed)}});
    } else {
      return closed ? Result<State>(lost(next_)) : State::waiting;
    }
  }
  return phase_ == Phase::gathering ? start_work() : Result<State>(end(State::done));
}

Direct::State Direct::end(State state) {
  phase_ = Phase::idle;
  memory_.await(nullptr);
  return state;
}

// A rank that closes after it has done its part is no loss.
Result<Direct::State> Direct::advance_staged() {
  std::vector<Rank> closed;
  for (Rank rank = 0; rank < size_; ++rank)
    if (has_closed(rank)) closed.push_back(rank);
  const auto state = staged_.advance();
  RONDEL_TRY(state);
  if (*state != State::waiting) return end(*state);
  const auto lagging =
      std::find_if(closed.begin(), closed.end(), [this](Rank rank) { return staged_.lags(rank); });
  return lagging == closed.end() ? Result<State>(State::waiting) : Result<State>(lost(*lagging));
}

// What the log says of an algorithm is of the messages that there would have been.
void Direct::tell(std::string_view way) {
  if (std::exchange(told_, way) == way) return;
  log(LogLevel::debug, "{} and what follows run {}", describe(operation_->request), way);
}

// All offers are there.
Result<Direct::State> Direct::start_work() {
  const bool small = fits_on_board();
  if (small) work_on_boards();
  const Result<bool> reached = small ? Result<bool>(true) : reach_all();
  RONDEL_TRY(reached);
  tell(small ? "on boards" : *reached ? "by loads and stores" : "over stages, or by messages");
  if (small) return end(State::done);
  if (!*reached) {
    if (!Staged::runs(operation_->request)) return end(State::declined);
    phase_ = Phase::staging;
    staged_.begin(*operation_);
    return advance_staged();
  }
  board_->working.store(1, std::memory_order_seq_cst);  // pairs with close()
  const bool whole = work();
  board_->working.store(0, std::memory_order_release);  // pairs with close()
  if (!whole) return lost(first_closed());
  board_->done.store(number_, std::memory_order_release);  // pairs with stands_ready()
  memory_.published();
  phase_ = Phase::finishing;
  next_ = 0;
  return advance();
}

// What all ranks see alike on all boards decides, so all decide alike.
Result<bool> Direct::reach_all() {
  if (!reachable_) return false;
  for (Rank rank = 0; rank < size_; ++rank)
    if (rank != rank_ && slot_of(rank).reachable == 0) return false;
  const CollectiveRequest& request = operation_->request;
  for (Rank rank = 0; rank < size_; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    inputs_[index] = request.input;
    outputs_[index] = static_cast<std::byte*>(request.output);
    if (rank == rank_) continue;
    const DirectBoard::Memory& theirs = slot_of(rank).memory;
    inputs_[index] = memory_.reach(rank, theirs.input, 1);
    outputs_[index] = memory_.reach(rank, theirs.output, 1);
    if ((theirs.input.region != 0 && inputs_[index] == nullptr) ||
        (theirs.output.region != 0 && outputs_[index] == nullptr))
      return Staged::can_not_map(rank);
  }
  return true;
}

bool Direct::peer_closed() const { return first_closed() != kNoRank; }

Rank Direct::first_closed() const {
  for (Rank rank = 0; rank < size_; ++rank)
    if (has_closed(rank)) return rank;
  return kNoRank;
}

Status Direct::lost(Rank peer) {
  Failure failure;
  failure.peer = peer;
  failure.cause = fmt::format("rank {} has given up its memory", peer);
  return Status(Code::peer_lost, std::move(failure));
}

const std::byte* Direct::payload_of(Rank rank) const {
  const CollectiveRequest& request = operation_->request;
  if (rank == rank_) return static_cast<const std::byte*>(request.input);  // see advance()
  std::size_t bytes = operation_->footprint.input_bytes;
  if (request.kind == CollectiveKind::all_gather)
    bytes = part_elements(request, rank) * size_of(request.type);
  if (request.kind == CollectiveKind::broadcast) bytes = request.count * size_of(request.type);
  return bytes <= DirectBoard::kTinyBytes ? slot_of(rank).tiny : slot_of(rank).payload;
}

void Direct::work_on_boards() {
  const CollectiveRequest& request = operation_->request;
  for (Rank rank = 0; rank < size_; ++rank) inputs_[static_cast<std::size_t>(rank)] = payload_of(rank);
  if (request.kind != CollectiveKind::all_reduce) return assemble();
  if (request.count > 0) fold_many(request.type, request.op, request.output, inputs_, request.count);
}

// False when a rank gave up meanwhile: its memory may have been anything.
bool Direct::work() {
  if (peer_closed()) return false;
  if (operation_->request.kind == CollectiveKind::all_reduce) {
    all_reduce();
  } else {
    assemble();
    memory_.count(bytes_assembled(), 0);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return !peer_closed();
}

// This rank's output from everybody's input, where nobody else stores to it.
void Direct::assemble() {
  const CollectiveRequest& request = operation_->request;
  auto* const output = static_cast<std::byte*>(request.output);
  const std::size_t element = size_of(request.type);
  switch (request.kind) {
    case CollectiveKind::reduce_scatter:
      for (const void*& input : inputs_) input = moved(input, part_offset(request, rank_));
      if (part_elements(request, rank_) > 0)
        fold_many(request.type, request.op, output, inputs_, part_elements(request, rank_));
      return;
    case CollectiveKind::all_gather:
      for (Rank rank = 0; rank < size_; ++rank)
        copy(output + part_offset(request, rank), inputs_[static_cast<std::size_t>(rank)],
             part_elements(request, rank) * element);
      return;
    case CollectiveKind::all_to_all:
      for (Rank rank = 0; rank < size_; ++rank)
        copy(output + part_offset(request, rank),
             moved(inputs_[static_cast<std::size_t>(rank)], part_offset(request, rank_)),
             request.count * element);
      return;
    case CollectiveKind::broadcast:
      return copy(output, inputs_[static_cast<std::size_t>(request.root)], request.count * element);
    default:
      return;
  }
}

/// Of other ranks' bytes.
std::size_t Direct::bytes_assembled() const {
  const CollectiveRequest& request = operation_->request;
  const std::size_t own = part_elements(request, rank_);
  std::size_t elements = 0;
  if (request.kind == CollectiveKind::reduce_scatter || request.kind == CollectiveKind::all_to_all)
    elements = own * static_cast<std::size_t>(size_ - 1);
  if (request.kind == CollectiveKind::all_gather)
    elements = part_offset(request, size_) / size_of(request.type) - own;
  if (request.kind == CollectiveKind::broadcast && rank_ != request.root) elements = request.count;
  return elements * size_of(request.type);
}

// This rank's share, block by block: folded once, stored to all.
void Direct::all_reduce() {
  const CollectiveRequest& request = operation_->request;
  const std::size_t element = size_of(request.type);
  const std::size_t total = request.count * element;
  const std::size_t even = (total + static_cast<std::size_t>(size_) - 1) / static_cast<std::size_t>(size_);
  const std::size_t share = (even + kShareAlignment - 1) / kShareAlignment * kShareAlignment;
  const std::size_t begin = std::min(total, share * static_cast<std::size_t>(rank_));
  const std::size_t end = std::min(total, begin + share);
  for (std::size_t at = begin; at < end && !peer_closed(); at += kBlockBytes) {
    const std::size_t bytes = std::min(kBlockBytes, end - at);
    for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i] = moved(inputs_[i], at);
    for (std::size_t i = 0; i < destinations_.size(); ++i) destinations_[i] = outputs_[i] + at;
    fold_many(request.type, request.op, destinations_, sources_, bytes / element);
  }
  const std::size_t others = (end - begin) * static_cast<std::size_t>(size_ - 1);
  memory_.count(others, others);
}

// ---- leaving

void Direct::close() noexcept {
  if (board_ == nullptr) return;
  board_->closed.store(1, std::memory_order_seq_cst);  // pairs with start_work() and work()
  memory_.published();
  memory_.await(nullptr);
  if (phase_ == Phase::idle) return;
  phase_ = Phase::idle;
  const auto limit = Deadline::in(kLeaveLimit);
  const auto works = [this](const DirectBoard* board) {
    return board != nullptr && board != board_ && board->working.load(std::memory_order_seq_cst) != 0;
  };
  while (std::any_of(boards_.begin(), boards_.end(), works) && !limit.passed()) ::sched_yield();
}

}  // namespace rondel
