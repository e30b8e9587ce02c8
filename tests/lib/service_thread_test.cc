// SPDX-License-Identifier: Apache-2.0
// The library's threads survive memory that runs out, and say which limit keeps them from starting.
#include "lib/service_thread.h"
#include "tests/support/sanitizers.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <new>

namespace rondel {

TEST_CASE("a service goes on after memory ran out in it") {
  int calls = 0;
  auto thread = start_service("a test", [&calls] {
    if (++calls < 3) throw std::bad_alloc();
  });
  REQUIRE(thread.ok());
  thread->join();
  CHECK(calls == 3);
}

#if !UNDER_ADDRESS_SANITIZER && !UNDER_THREAD_SANITIZER  // their shadow exceeds any such limit

TEST_CASE("a service that can not start names what it is for and the limits") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit none{1, 1};  // no stack of a thread fits
    ::setrlimit(RLIMIT_AS, &none);
    auto thread = start_service("a test", ::pause);
    while (thread.ok()) {  // the stacks of threads that have ended are used again
      thread->detach();
      thread = start_service("a test", ::pause);
    }
    const bool right = thread.code() == Code::out_of_resources &&
                       thread.status().text().find("a thread for a test") != std::string::npos &&
                       thread.status().text().find("ulimit -v") != std::string::npos;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

#endif

}  // namespace rondel
