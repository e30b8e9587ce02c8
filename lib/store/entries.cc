// SPDX-License-Identifier: Apache-2.0
#include "lib/store/entries.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <functional>

#include "lib/store/store.h"
#include "lib/wire.h"

namespace rondel::store {

Status check_key(std::string_view key) {
  if (key.empty()) return Status(Code::invalid_argument, "a store key is empty");
  if (key.size() > kStoreKeyLimit)
    return Status(Code::invalid_argument,
                  fmt::format("a store key of {} bytes is over the limit of {}: '{}...'", key.size(),
                              kStoreKeyLimit, key.substr(0, 40)));
  return {};
}

Status check_entry(std::string_view key, std::span<const std::byte> value) {
  RONDEL_TRY(check_key(key));
  if (value.size() > kStoreValueLimit)
    return Status(Code::invalid_argument,
                  fmt::format("the value of {} bytes for store key '{}' is over the limit of {}",
                              value.size(), key, kStoreValueLimit));
  return {};
}

Result<std::int64_t> add_to_counter(std::string_view key, const Bytes* old_value, std::int64_t increment) {
  std::int64_t sum = 0;
  if (old_value != nullptr) {
    const auto* const first = reinterpret_cast<const char*>(old_value->data());
    const auto* const last = first + old_value->size();
    const auto parsed = std::from_chars(first, last, sum);
    if (parsed.ec != std::errc() || parsed.ptr != last)
      return Status(Code::invalid_argument, fmt::format("store key '{}' holds no counter", key));
  }
  if (__builtin_add_overflow(sum, increment, &sum))
    return Status(Code::invalid_argument, fmt::format("the counter at store key '{}' would overflow", key));
  return sum;
}

Bytes counter_text(std::int64_t value) {
  const std::string text = std::to_string(value);
  const auto bytes = wire::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

Status not_set(std::span<const std::string> missing, Deadline::Clock::time_point since) {
  constexpr std::size_t kNamed = 8;
  std::string names;
  for (const std::string& key : missing.first(std::min(missing.size(), kNamed)))
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", key);
  if (missing.size() > kNamed) names += fmt::format(" and {} more", missing.size() - kNamed);
  const std::chrono::duration<double> waited = Deadline::Clock::now() - since;
  return Status(Code::timed_out, fmt::format("store key{} {} not set after {:.1f} s",
                                             missing.size() == 1 ? "" : "s", names, waited.count()));
}

Status Entries::set(std::string_view key, std::span<const std::byte> value) {
  RONDEL_TRY(check_entry(key, value));
  values_.insert_or_assign(std::string(key), Bytes(value.begin(), value.end()));
  return {};
}

Result<std::int64_t> Entries::add(std::string_view key, std::int64_t increment) {
  RONDEL_TRY(check_key(key));
  auto sum = add_to_counter(key, find(key), increment);
  if (sum.ok()) values_.insert_or_assign(std::string(key), counter_text(*sum));
  return sum;
}

const Bytes* Entries::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::vector<std::string> Entries::missing_of(std::span<const std::string> keys) const {
  std::vector<std::string> missing;
  for (const std::string& key : keys)
    if (find(key) == nullptr) missing.push_back(key);
  return missing;
}

}  // namespace rondel::store
