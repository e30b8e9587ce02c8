// SPDX-License-Identifier: Apache-2.0
#include "lib/store/memory_store.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "lib/store/entries.h"

namespace rondel {

class MemoryStoreData {
 public:
  Status set(std::string_view key, std::span<const std::byte> value) {
    const std::lock_guard lock(mutex_);
    RONDEL_TRY(entries_.set(key, value));
    changed_.notify_all();
    return {};
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t increment) {
    const std::lock_guard lock(mutex_);
    auto sum = entries_.add(key, increment);
    changed_.notify_all();
    return sum;
  }

  Status wait(std::span<const std::string> keys, Deadline deadline) {
    const auto since = Deadline::Clock::now();
    std::unique_lock lock(mutex_);
    const bool all =
        changed_.wait_until(lock, deadline.when(), [&] { return entries_.missing_of(keys).empty(); });
    return all ? Status() : store::not_set(entries_.missing_of(keys), since);
  }

  std::vector<std::string> missing_of(std::span<const std::string> keys) {
    const std::lock_guard lock(mutex_);
    return entries_.missing_of(keys);
  }

  Bytes value_of(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return *entries_.find(key);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  store::Entries entries_;
};

namespace {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryStoreData> data) : data_(std::move(data)) {}

  Status set(std::string_view key, std::span<const std::byte> value, Deadline) override {
    return data_->set(key, value);
  }

  Result<Bytes> get(std::string_view key, Deadline deadline) override {
    RONDEL_TRY(store::check_key(key));
    const std::string name(key);
    RONDEL_TRY(data_->wait(std::span(&name, 1), deadline));
    return data_->value_of(name);  // keys are never removed
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t increment, Deadline) override {
    return data_->add(key, increment);
  }

  Status wait(std::span<const std::string> keys, Deadline deadline) override {
    for (const std::string& key : keys) RONDEL_TRY(store::check_key(key));
    return data_->wait(keys, deadline);
  }

  Result<std::vector<std::string>> missing(std::span<const std::string> keys, Deadline) override {
    for (const std::string& key : keys) RONDEL_TRY(store::check_key(key));
    return data_->missing_of(keys);
  }

 private:
  const std::shared_ptr<MemoryStoreData> data_;
};

}  // namespace

std::shared_ptr<MemoryStoreData> make_memory_store_data() { return std::make_shared<MemoryStoreData>(); }

std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryStoreData> data) {
  return std::make_unique<MemoryStore>(std::move(data));
}

}  // namespace rondel
