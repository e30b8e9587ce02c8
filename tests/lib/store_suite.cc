// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/store_suite.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "lib/wire.h"

namespace rondel::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

Bytes bytes_of(std::string_view text) {
  const auto span = wire::as_bytes(text);
  return {span.begin(), span.end()};
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

namespace {

void check_values(const OpenStore& open) {
  const auto a = open();
  const auto b = open();
  REQUIRE(a->set("values/one", bytes_of("first")).ok());
  CHECK(text_of(*b->get("values/one", Deadline::in(seconds(5)))) == "first");
  REQUIRE(b->set("values/one", bytes_of("second")).ok());
  CHECK(text_of(*a->get("values/one", Deadline::in(seconds(5)))) == "second");
  REQUIRE(a->set("values/empty", {}).ok());
  CHECK(b->get("values/empty", Deadline::in(seconds(5)))->empty());
  const std::string odd_key("values/..\0/\xff 'x'", 17);
  REQUIRE(a->set(odd_key, bytes_of("odd")).ok());
  CHECK(text_of(*b->get(odd_key, Deadline::in(seconds(5)))) == "odd");
}

void check_limits(const OpenStore& open) {
  const auto store = open();
  const std::string long_key(kStoreKeyLimit, 'k');
  Bytes large(kStoreValueLimit);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 7 + i / 256);
  REQUIRE(store->set(long_key, large).ok());
  CHECK(*open()->get(long_key, Deadline::in(seconds(5))) == large);
  CHECK(store->set(long_key + "k", {}).code() == Code::invalid_argument);
  CHECK(store->set("large", Bytes(kStoreValueLimit + 1)).code() == Code::invalid_argument);
  CHECK(store->set("", {}).code() == Code::invalid_argument);
  CHECK(store->get("", Deadline::in(seconds(5))).code() == Code::invalid_argument);
  CHECK(store->get(long_key + "k", Deadline::in(seconds(5))).code() == Code::invalid_argument);
  CHECK(store->add(long_key + "k", 1).code() == Code::invalid_argument);
  const std::vector<std::string> keys{"large", long_key + "k"};
  CHECK(store->wait(keys, Deadline::in(seconds(5))).code() == Code::invalid_argument);
}

void check_timeouts(const OpenStore& open) {
  const auto store = open();
  const auto before = Deadline::Clock::now();
  const auto value = store->get("never/set", Deadline::in(milliseconds(30)));
  CHECK(value.code() == Code::timed_out);
  CHECK(value.status().text().find("'never/set'") != std::string::npos);
  REQUIRE(store->set("set", {}).ok());
  const std::vector<std::string> keys{"set", "never/set", "nor this"};
  const auto waited = store->wait(keys, Deadline::in(milliseconds(30)));
  CHECK(waited.code() == Code::timed_out);
  CHECK(waited.text().find("'never/set', 'nor this'") != std::string::npos);
  CHECK(waited.text().find("'set'") == std::string::npos);
  CHECK(store->get("never/set", Deadline::in(milliseconds(-1))).code() == Code::timed_out);
  CHECK(Deadline::Clock::now() - before < seconds(5));
  const auto missing = store->missing(keys, Deadline::in(seconds(5)));
  REQUIRE(missing.ok());
  CHECK(*missing == std::vector<std::string>{"never/set", "nor this"});
  CHECK(store->missing({}, Deadline::in(seconds(5)))->empty());
  CHECK(store->set("after", bytes_of("fine")).ok());  // an abandoned wait leaves the store usable
  CHECK(text_of(*store->get("after", Deadline::in(seconds(5)))) == "fine");
}

void check_waits(const OpenStore& open) {
  const auto waiter = open();
  const auto setter = open();
  const std::vector<std::string> keys{"wait/1", "wait/2"};
  REQUIRE(setter->set("wait/1", {}).ok());
  Status waited(Code::internal, "not yet");
  std::thread thread([&] { waited = waiter->wait(keys, Deadline::in(seconds(20))); });
  const Status set = setter->set("wait/2", bytes_of("now"));
  thread.join();
  CHECK(set.ok());
  CHECK(waited.ok());
  CHECK(waiter->wait(keys, Deadline::in(milliseconds(-1))).ok());  // all set before: at once
  CHECK(waiter->wait({}, Deadline::in(milliseconds(-1))).ok());
}

void check_get_waits_for_the_setter(const OpenStore& open) {
  const auto waiter = open();
  const auto setter = open();
  Result<Bytes> value = Status(Code::internal, "not yet");
  std::thread thread([&] { value = waiter->get("late", Deadline::in(seconds(20))); });
  const Status set = setter->set("late", bytes_of("value"));
  thread.join();
  CHECK(set.ok());
  REQUIRE(value.ok());
  CHECK(text_of(*value) == "value");
}

void check_counters(const OpenStore& open) {
  constexpr int kThreads = 4;
  constexpr int kAdds = 50;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Store>> stores;
  for (int t = 0; t < kThreads; ++t) stores.push_back(open());
  std::atomic<std::int64_t> largest{0};
  std::atomic<int> failed{0};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&stores, &largest, &failed, t] {
      for (int i = 0; i < kAdds; ++i) {
        const auto sum = stores[static_cast<std::size_t>(t)]->add("counter", t + 1);
        if (!sum.ok()) ++failed;
        std::int64_t seen = largest;
        while (sum.ok() && *sum > seen && !largest.compare_exchange_weak(seen, *sum)) continue;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(largest == kAdds * (1 + 2 + 3 + 4));
  const auto store = open();
  CHECK(*store->add("counter", -500) == 0);
  CHECK(text_of(*store->get("counter", Deadline::in(seconds(5)))) == "0");
  CHECK(*store->add("big", INT64_MAX) == INT64_MAX);
  CHECK(store->add("big", 1).code() == Code::invalid_argument);
  REQUIRE(store->set("word", bytes_of("12x")).ok());
  CHECK(store->add("word", 1).code() == Code::invalid_argument);
}

}  // namespace

void run_store_suite(const OpenStore& open) {
  check_values(open);
  check_limits(open);
  check_timeouts(open);
  check_waits(open);
  check_get_waits_for_the_setter(open);
  check_counters(open);
}

}  // namespace rondel::test
