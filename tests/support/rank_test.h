// SPDX-License-Identifier: Apache-2.0
// RankTest: how the body of one rank reports what it found. Catch2's own assertions belong to the main
// thread, so ranks collect sentences here and the test case checks that there are none. One object per rank,
// its thread only.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/status.h"
#include "lib/types.h"

namespace rondel::test {

/// A line of a test. By built-ins that both compilers know; clang 14 has no std::source_location.
struct Where {
  const char* file;
  int line;
  static constexpr Where current(const char* in = __builtin_FILE(), int at = __builtin_LINE()) {
    return {in, at};
  }
};

class RankTest {
 public:
  RankTest(Rank rank, Rank size) : rank_(rank), size_(size) {}

  Rank rank() const { return rank_; }
  Rank size() const { return size_; }

  /// Notes a failure and goes on.
  bool expect(bool holds, std::string_view what, Where where = Where::current());
  /// Notes a failure and ends this rank's body (by an exception that its world catches).
  void require(bool holds, std::string_view what, Where where = Where::current());
  /// ok() of a Status or Result, with its text when it is not.
  template <class Outcome>
  void require_ok(const Outcome& outcome, std::string_view what, Where where = Where::current()) {
    if (!outcome.ok()) stop(std::string(what) + ": " + text_of(outcome), where);
  }
  template <class A, class B>
  bool expect_equal(const A& found, const B& wanted, std::string_view what, Where where = Where::current()) {
    if (found == wanted) return true;
    note(std::string(what) + ": found " + text_of(found) + ", wanted " + text_of(wanted), where);
    return false;
  }

  /// "rank 2: file.cc:10: what", in the order of their discovery.
  const std::vector<std::string>& failures() const { return failures_; }
  void note(std::string_view what, Where where = Where::current());
  [[noreturn]] void stop(std::string_view what, Where where = Where::current());

  /// Runs `body` and turns whatever it throws into a failure.
  template <class Body>
  void run(const Body& body) {
    try {
      body(*this);
    } catch (const Stopped&) {
    } catch (const std::exception& error) {
      note(std::string("an exception: ") + error.what());
    }
  }

 private:
  struct Stopped {};

  static std::string text_of(const Status& status) { return status.text(); }
  template <class T>
  static std::string text_of(const Result<T>& result) {
    return result.status().text();
  }
  static std::string text_of(std::string_view text) { return std::string(text); }
  static std::string text_of(Code code) { return std::string(name_of(code)); }
  static std::string text_of(bool fact) { return fact ? "true" : "false"; }
  template <class T>
  requires std::is_arithmetic_v<T>
  static std::string text_of(T value) { return std::to_string(value); }

  const Rank rank_;
  const Rank size_;
  std::vector<std::string> failures_;
};

/// All sentences, one a line: `CHECK(all_of(failures) == "")` shows every one of them.
std::string all_of(const std::vector<std::string>& failures);

}  // namespace rondel::test
