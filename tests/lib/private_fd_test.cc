// SPDX-License-Identifier: Apache-2.0
#include "lib/private_fd.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <functional>

namespace rondel {
namespace {

UniqueFd open_null() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

/// Whether `holds` is true in a forked child.
bool in_child(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0;
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST_CASE("a private descriptor is closed in a forked child, others are not") {
  const PrivateFd ours(open_null());
  const UniqueFd shared = open_null();
  CHECK(in_child([&] { return !is_open(ours.get()) && is_open(shared.get()); }));
  CHECK(is_open(ours.get()));
}

TEST_CASE("a number that a private descriptor had is let alone once it is closed or moved") {
  int number = -1;
  {
    PrivateFd first(open_null());
    number = first.get();
    PrivateFd second(std::move(first));
    CHECK(second.get() == number);
    CHECK(in_child([&] { return !is_open(number); }));
    PrivateFd third;
    third = std::move(second);
    CHECK(in_child([&] { return !is_open(number); }));
  }
  CHECK_FALSE(is_open(number));
  const UniqueFd next = open_null();
  REQUIRE(next.get() == number);
  CHECK(in_child([&] { return is_open(number); }));
}

TEST_CASE("a child that destroys its copy of the object does not close another's descriptor") {
  PrivateFd ours(open_null());
  CHECK(in_child([&] {
    const UniqueFd other = open_null();  // takes the number that was closed
    const bool reused = other.get() == ours.get();
    ours.reset();
    return reused && is_open(other.get());
  }));
}

TEST_CASE("many private descriptors come and go") {
  for (int round = 0; round < 20'000; ++round) PrivateFd{open_null()};
  const PrivateFd last(open_null());
  CHECK(in_child([&] { return !is_open(last.get()); }));
}

}  // namespace
}  // namespace rondel
