// SPDX-License-Identifier: Apache-2.0
#include "ring/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "lib/wire.h"

namespace rondel {
namespace {

constexpr std::chrono::milliseconds kGlance{50};  // a wait that holds the store's mutex
constexpr std::chrono::milliseconds kGrace{800};  // others wait this much longer than rank 0, who knows why
constexpr std::chrono::milliseconds kWord{200};   // rank 0's word comes within this when deadlines are equal
constexpr std::chrono::milliseconds kInquest{400};  // after a deadline: who has not come?
constexpr std::chrono::milliseconds kTelling{200};  // a failure; it arrives without the answer too
constexpr std::size_t kRanksNamed = 16;
constexpr std::string_view kFirst = "hello";  // whoever does not give this has not come

class StoreExchange final : public Exchange {
 public:
  StoreExchange(Store& store, std::mutex& mutex, std::string prefix, Rank rank, Rank size,
                std::shared_ptr<liveness::Watch> watch)
      : store_(store),
        mutex_(mutex),
        prefix_(std::move(prefix)),
        rank_(rank),
        size_(size),
        watch_(std::move(watch)) {}

  Result<std::vector<Bytes>> all_gather(std::string_view what, const Bytes& own, Deadline deadline) override;

 private:
  std::string key(std::string_view what, Rank rank) const {
    return fmt::format("{}/{}/{}", prefix_, what, rank);
  }
  /// Without the number that makes it unique.
  std::string shown_name() const { return prefix_.substr(0, prefix_.find('#')); }
  std::string table_key(std::string_view what) const { return fmt::format("{}/{}/all", prefix_, what); }

  Status set(const std::string& key, const Bytes& value, Deadline deadline) {
    const std::lock_guard lock(mutex_);
    return mine(store_.set(key, value, deadline));
  }
  /// As this rank reports it.
  Status mine(Status failed) const;
  Result<Bytes> get(const std::string& key, Deadline deadline);
  Result<std::vector<Bytes>> collect(std::string_view what, const Bytes& own, Deadline deadline);
  Result<std::vector<Bytes>> read_table(std::string_view what, Deadline deadline);
  Result<std::vector<Rank>> missing_ranks(std::string_view what);
  Status did_not_come(std::string_view what, const std::vector<Rank>& missing) const;
  Status incident() const;

  Store& store_;
  std::mutex& mutex_;
  const std::string prefix_;
  const Rank rank_;
  const Rank size_;
  const std::shared_ptr<liveness::Watch> watch_;
};

Status StoreExchange::mine(Status failed) const {
  if (failed.ok()) return failed;
  Failure failure = failed.failure();
  failure.rank = rank_;
  return Status(failed.code(), std::move(failure));
}

Status StoreExchange::incident() const {
  const liveness::Incident& incident = watch_->incident();
  Failure failure;
  failure.cause = incident.cause;
  failure.hint = incident.hint;
  failure.host = incident.host;
  failure.peer = incident.guilty;
  failure.rank = rank_;
  return Status(incident.code, std::move(failure));
}

Result<Bytes> StoreExchange::get(const std::string& key, Deadline deadline) {
  for (;;) {
    if (watch_->raised()) return incident();
    {
      const std::lock_guard lock(mutex_);
      auto value = store_.get(key, Deadline::in(kGlance).or_before(deadline));
      if (value.ok() || value.code() != Code::timed_out || deadline.passed()) return value;
    }
  }
}

/// Who has not come; a failure when the store does not tell.
Result<std::vector<Rank>> StoreExchange::missing_ranks(std::string_view what) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(size_));
  for (Rank rank = 0; rank < size_; ++rank) keys.push_back(key(what, rank));
  const std::lock_guard lock(mutex_);
  const auto missing = store_.missing(keys, Deadline::in(kInquest));
  if (!missing.ok()) return mine(missing.status());
  const std::unordered_set<std::string_view> absent(missing->begin(), missing->end());
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size_; ++rank)
    if (absent.contains(keys[static_cast<std::size_t>(rank)])) ranks.push_back(rank);
  return ranks;
}

Status StoreExchange::did_not_come(std::string_view what, const std::vector<Rank>& missing) const {
  const bool never = what == kFirst;
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), kRanksNamed); ++i)
    names += fmt::format("{}{}", i == 0 ? "" : ", ", missing[i]);
  if (missing.size() > kRanksNamed) names += ", ...";
  Failure failure;
  failure.cause = missing.empty()
                      ? fmt::format("all ranks of {} came, but rank 0 did not say so in time", shown_name())
                      : fmt::format("{} of {} ranks {} {} {}: {}", missing.size(), size_,
                                    never ? "did not come to" : "came to", shown_name(),
                                    never ? "in time" : "and then fell silent", names);
  failure.hint = fmt::format("see {}; RONDEL_START_TIMEOUT_S sets the limit",
                             never ? "that every rank was started and reaches the store"
                                   : "whether their processes are stopped, or their hosts overloaded");
  failure.peer = missing.empty() ? 0 : missing.front();
  failure.rank = rank_;
  return Status(Code::timed_out, std::move(failure));
}

/// Rank 0: everybody's bytes. A failure is what the others will read.
Result<std::vector<Bytes>> StoreExchange::collect(std::string_view what, const Bytes& own,
                                                  Deadline deadline) {
  std::vector<Bytes> all{own};
  for (Rank rank = 1; rank < size_; ++rank) {
    auto bytes = get(key(what, rank), deadline);
    if (bytes.code() == Code::timed_out) {
      const auto missing = missing_ranks(what);
      RONDEL_TRY(missing);
      if (!missing->empty()) return did_not_come(what, *missing);
      bytes = get(key(what, rank), Deadline::in(kInquest));  // set in the last moment, as all that follow
    }
    if (!bytes.ok()) return mine(bytes.status());
    all.push_back(std::move(bytes).value());
  }
  return all;
}

Result<std::vector<Bytes>> StoreExchange::read_table(std::string_view what, Deadline deadline) {
  auto table = get(table_key(what), Deadline::at(deadline.when() + kWord));
  if (table.code() == Code::timed_out) {
    RONDEL_TRY(missing_ranks(what));  // a silent store is not worth the grace
    table = get(table_key(what), Deadline::at(deadline.when() + kGrace));
  }
  if (table.code() == Code::timed_out) {
    const auto missing = missing_ranks(what);
    RONDEL_TRY(missing);
    return did_not_come(what, *missing);
  }
  if (!table.ok()) return mine(table.status());
  wire::Reader reader(*table);
  const auto code = static_cast<Code>(reader.number<std::uint8_t>());
  if (code != Code::ok) {
    Failure failure;
    failure.peer = static_cast<Rank>(reader.number<std::uint32_t>());
    failure.cause = reader.text(kStoreValueLimit);
    failure.hint = reader.text(kStoreValueLimit);
    failure.rank = rank_;
    return Status(code, std::move(failure));
  }
  std::vector<Bytes> all;
  for (Rank rank = 0; rank < size_; ++rank) {
    const auto bytes = reader.blob(kStoreValueLimit);
    all.emplace_back(bytes.begin(), bytes.end());
  }
  if (!reader.finished())
    return Status(Code::internal, fmt::format("the table {} is damaged", table_key(what)));
  return all;
}

Result<std::vector<Bytes>> StoreExchange::all_gather(std::string_view what, const Bytes& own,
                                                     Deadline deadline) {
  RONDEL_TRY(set(key(what, rank_), own, deadline));
  if (rank_ != 0) return read_table(what, deadline);
  auto all = collect(what, own, deadline);
  wire::Writer table;
  table.number(static_cast<std::uint8_t>(all.code()));
  if (all.ok()) {
    for (const Bytes& bytes : *all) table.blob(bytes);
  } else {
    const Failure failure = all.status().failure();
    table.number(static_cast<std::uint32_t>(failure.peer)).text(failure.cause).text(failure.hint);
  }
  // Who failed at the deadline has no time left, and the others no time to wait for it.
  const Deadline telling = all.ok() ? Deadline::at(deadline.when() + kInquest) : Deadline::in(kTelling);
  if (const Status told = set(table_key(what), table.bytes(), telling); !told.ok() && all.ok()) return told;
  return all;
}

}  // namespace

std::unique_ptr<Exchange> make_store_exchange(Store& store, std::mutex& mutex, std::string prefix, Rank rank,
                                              Rank size, std::shared_ptr<liveness::Watch> watch) {
  return std::make_unique<StoreExchange>(store, mutex, std::move(prefix), rank, size, std::move(watch));
}

}  // namespace rondel
