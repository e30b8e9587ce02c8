// SPDX-License-Identifier: Apache-2.0
// How a pod of a Kubernetes Job in Indexed mode knows pod 0's name.
#include "bindings/c/indexed_job.h"

#include <catch2/catch.hpp>

namespace rondel::c {
namespace {

std::string error_of(std::string_view name, std::string_view index) {
  const auto first = first_pod(name, index);
  REQUIRE_FALSE(first.ok());
  CHECK(first.code() == Code::invalid_argument);
  return first.status().text();
}

TEST_CASE("pod 0's name follows from each pod's own") {
  CHECK(*first_pod("train-3.svc.ns.svc.cluster.local", "3") == "train-0.svc.ns.svc.cluster.local");
  CHECK(*first_pod("train-0.svc", "0") == "train-0.svc");
  CHECK(*first_pod("a-12-12.s-12", "12") == "a-12-0.s-12");
  CHECK(*first_pod("set-workers-0-7.set", "7") == "set-workers-0-0.set");  // a JobSet's
}

TEST_CASE("what the manifest lacks is named") {
  CHECK_THAT(error_of("train-3", "3"), Catch::Contains("subdomain") && Catch::Contains("headless Service"));
  for (const char* name : {"node7.example", "train-13.svc", "train-3x.svc", "3.svc", ""})
    CHECK_THAT(error_of(name, "3"),
               Catch::Contains("MASTER_ADDR") && Catch::Contains("JOB_COMPLETION_INDEX"));
}

}  // namespace
}  // namespace rondel::c
