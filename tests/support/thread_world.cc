// SPDX-License-Identifier: Apache-2.0
#include "tests/support/thread_world.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>

namespace rondel::test {

namespace {

[[noreturn]] void give_up(std::chrono::nanoseconds limit, std::deque<Event>& ended) {
  std::string running;
  for (std::size_t rank = 0; rank < ended.size(); ++rank)
    if (!ended[rank].is_set()) running += fmt::format(" {}", rank);
  fmt::print(stderr, "still running after {} ms, ranks:{}\n",
             std::chrono::duration_cast<std::chrono::milliseconds>(limit).count(), running);
  std::_Exit(1);  // nothing of the ranks' may be torn down under them
}

}  // namespace

std::vector<std::string> run_as_threads(Rank ranks, const std::function<void(RankTest&)>& body,
                                        std::chrono::nanoseconds limit) {
  const Deadline deadline = Deadline::in(limit);
  std::deque<RankTest> tests;
  std::deque<Event> ended(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) tests.emplace_back(rank, ranks);
  for (std::size_t i = 0; i < tests.size(); ++i)
    threads.emplace_back([&test = tests[i], &end = ended[i], &body] {
      test.run(body);
      end.set();
    });
  for (const Event& end : ended)
    if (!end.wait(deadline)) give_up(limit, ended);
  for (std::thread& thread : threads) thread.join();

  std::vector<std::string> failures;
  for (const RankTest& test : tests)
    failures.insert(failures.end(), test.failures().begin(), test.failures().end());
  return failures;
}

void Event::set() {
  const std::lock_guard lock(mutex_);
  set_ = true;
  changed_.notify_all();
}

bool Event::is_set() const {
  const std::lock_guard lock(mutex_);
  return set_;
}

bool Event::wait(Deadline deadline) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline.when(), [this] { return set_; });
}

bool Meeting::arrive_and_wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (++arrived_ == ranks_) {
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
    return true;
  }
  return changed_.wait_until(lock, deadline.when(), [this, mine = round_] { return round_ != mine; });
}

}  // namespace rondel::test
