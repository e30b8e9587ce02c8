// SPDX-License-Identifier: Apache-2.0
#include "lib/status.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <memory>
#include <set>
#include <string>

namespace {

using rondel::Code;
using rondel::Failure;
using rondel::Result;
using rondel::Status;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("status: success is the default and says so") {
  const Status status;
  CHECK(status.ok());
  CHECK(status.code() == Code::ok);
  CHECK(status.text() == "ok");
  CHECK(status.failure().cause.empty());
  CHECK(Status(Code::ok, "ignored").ok());
}

TEST_CASE("status: every code has its own name") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < rondel::kCodeCount; ++i) names.emplace(name_of(static_cast<Code>(i)));
  CHECK(names.size() == rondel::kCodeCount);
  CHECK(names.count("unknown code") == 0);
  CHECK(name_of(static_cast<Code>(rondel::kCodeCount)) == "unknown code");
  CHECK(name_of(Code::peer_lost) == "peer lost");
  CHECK(name_of(Code::internal) == "internal error");
}

TEST_CASE("status: the text holds reporter, operation, cause and hint in this order") {
  Failure failure;
  failure.cause = "rank 2 closed its connection";
  failure.hint = "look at its log";
  failure.operation = "allreduce #17 of 1024 float32 sum";
  failure.host = "node7";
  failure.rank = 5;
  failure.peer = 2;
  failure.bytes_done = 4096;
  const Status status(Code::peer_lost, failure);
  const std::string text = status.text();
  CHECK(text.find("rank 5") < text.find("allreduce #17"));
  CHECK(text.find("allreduce #17") < text.find("rank 2 closed"));
  CHECK(text.find("rank 2 closed") < text.find("look at its log"));
  CHECK(contains(text, "look at its log"));
  CHECK_FALSE(contains(text, "\n"));
  CHECK(status.failure().peer == 2);
  CHECK(status.failure().bytes_done == 4096);
}

TEST_CASE("status: a failure without a cause is named by its code") {
  CHECK(Status(Code::aborted, Failure{}).text() == "aborted");
}

TEST_CASE("status: context goes in front of the cause and leaves success alone") {
  CHECK(Status(Code::io_error, "cause").with("inner").with("outer").failure().cause == "outer: inner: cause");
  CHECK(Status().with("context").ok());
}

TEST_CASE("status: copies are independent, moves leave success behind") {
  Status first(Code::refused, "first");
  const Status copy = first;
  first = Status(Code::mismatch, "second");
  CHECK(copy.code() == Code::refused);
  CHECK(copy.failure().cause == "first");
  Status target;
  target = copy;
  CHECK(target.text() == copy.text());
  const Status& self = target;
  target = self;
  CHECK(target.failure().cause == "first");
  const Status taken = std::move(target);
  CHECK(taken.code() == Code::refused);
}

TEST_CASE("status: a system failure carries the system's words") {
  const Status status = rondel::system_failure(Code::io_error, "open of a file", ENOENT, "create it");
  CHECK(status.code() == Code::io_error);
  CHECK(contains(status.text(), "open of a file"));
  CHECK(contains(status.text(), "No such file or directory"));
  CHECK(contains(status.text(), "create it"));
}

TEST_CASE("status: what ran out is named as such, with the limit") {
  for (const int error : {EMFILE, ENFILE, ENOMEM, ENOBUFS}) {
    CAPTURE(error);
    CHECK(system_failure(Code::io_error, "opening x", error).code() == Code::out_of_resources);
  }
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(system_failure(Code::io_error, "opening x", EMFILE).failure().hint ==
        "this process may have " + std::to_string(limit.rlim_cur) +
            " open files; raise the limit (ulimit -n)");
  CHECK(system_failure(Code::io_error, "opening x", EMFILE, "close some").failure().hint == "close some");
  CHECK(system_failure(Code::io_error, "opening x", ENOENT).failure().hint.empty());
}

TEST_CASE("result: holds a value, movable ones too") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  REQUIRE(result.ok());
  CHECK(result.code() == Code::ok);
  CHECK(result.status().ok());
  CHECK(**result == 7);
  const std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 7);
}

TEST_CASE("result: holds the failure otherwise") {
  Result<std::string> result(Status(Code::timed_out, "no answer"));
  CHECK_FALSE(result.ok());
  CHECK(result.code() == Code::timed_out);
  CHECK(result.status().failure().cause == "no answer");
  CHECK(std::move(result).status().failure().cause == "no answer");
}

Status pass_on(const Status& status, int& reached) {
  RONDEL_TRY(status);
  ++reached;
  return {};
}

Result<int> doubled(Result<int> input, int& reached) {
  RONDEL_TRY(input);
  ++reached;
  return *input * 2;
}

Status pass_on_temporary(int& reached) {
  RONDEL_TRY(doubled(Status(Code::unavailable, "temporary"), reached));
  ++reached;
  return {};
}

TEST_CASE("RONDEL_TRY: goes on after success and returns any failure as it is") {
  int reached = 0;
  CHECK(pass_on(Status(), reached).ok());
  CHECK(doubled(21, reached).value() == 42);
  CHECK(reached == 2);
  CHECK(pass_on(Status(Code::aborted, "stop"), reached).failure().cause == "stop");
  CHECK(doubled(Status(Code::unavailable, "none"), reached).status().failure().cause == "none");
  CHECK(pass_on_temporary(reached).failure().cause == "temporary");
  CHECK(reached == 2);
}

}  // namespace
