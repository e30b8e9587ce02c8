// SPDX-License-Identifier: Apache-2.0
// Policies over the whole tree. Each one is tried on a sample that breaks it in samples_test.cc.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "lib/config.h"
#include "tests/policy/docs.h"
#include "tests/policy/form.h"
#include "tests/policy/layers.h"
#include "tests/policy/tree.h"

namespace rondel::policy {

namespace {

const std::vector<File>& tree() {
  static const std::vector<File> kTree = read_tree(RONDEL_SOURCE_ROOT);
  return kTree;
}

// Runs a check of one file over all and fails with every finding.
template <class Check>
void expect_clean(Check check) {
  REQUIRE(tree().size() > 20);  // or the tree was not found and nothing would be checked
  std::string all;
  for (const File& file : tree())
    for (const std::string& text : check(file)) all += text + "\n";
  INFO(all);
  CHECK(all.empty());
}

std::string joined(const std::vector<std::string>& findings) {
  std::string all;
  for (const std::string& text : findings) all += text + "\n";
  return all;
}

}  // namespace

TEST_CASE("includes follow the arrows", "[layers]") { expect_clean(layer_findings); }

TEST_CASE("only the registry names backends", "[layers]") {
  const std::vector<std::string> backends = backends_of(tree());
  REQUIRE_FALSE(backends.empty());
  expect_clean([&](const File& file) { return backend_name_findings(file, backends); });
}

TEST_CASE("files and functions stay small", "[sizes]") { expect_clean(size_findings); }

TEST_CASE("no banned words", "[words]") { expect_clean(word_findings); }

TEST_CASE("each source includes its own header first", "[words]") {
  expect_clean([](const File& file) { return own_header_findings(file, tree()); });
}

TEST_CASE("links in documents lead somewhere", "[docs]") {
  expect_clean([](const File& file) { return link_findings(file, RONDEL_SOURCE_ROOT); });
}

TEST_CASE("the top level holds what the layout names", "[docs]") {
  const std::string all = joined(top_level_findings(RONDEL_SOURCE_ROOT));
  INFO(all);
  CHECK(all.empty());
}

}  // namespace rondel::policy
