// SPDX-License-Identifier: Apache-2.0
#include "launcher/environment.h"

#include <algorithm>
#include <catch2/catch.hpp>

using Catch::Matchers::Contains;
using rondel::base_environment;
using rondel::JobContact;
using rondel::rank_environment;
using rondel::RankPlace;
using Words = std::vector<std::string>;

namespace {

const RankPlace kPlace{.rank = 3, .size = 8, .local_rank = 1, .local_size = 2, .host = 1};
const JobContact kContact{
    .job = "job-1", .store = "tcp://127.0.0.1:4000", .master_address = "127.0.0.1", .master_port = 4001};

bool has(const Words& words, const std::string& word) {
  return std::count(words.begin(), words.end(), word) == 1;
}

Words rank_words(const Words& inherited, const Words& exports, bool only_exports = false) {
  const auto base = base_environment(inherited, exports, only_exports);
  REQUIRE(base.ok());
  return rank_environment(*base, kPlace, kContact, 7);
}

}  // namespace

TEST_CASE("a rank learns who and where it is, in both dialects") {
  const Words words = rank_words({"PATH=/bin"}, {});
  for (const char* entry :
       {"PATH=/bin", "RONDEL_RANK=3", "RONDEL_SIZE=8", "RONDEL_LOCAL_RANK=1", "RONDEL_LOCAL_SIZE=2",
        "RONDEL_STORE=tcp://127.0.0.1:4000", "RONDEL_JOB=job-1", "RONDEL_SECRET_FD=7", "RANK=3",
        "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4001"})
    CHECK(has(words, entry));
  CHECK(words.size() == 1 + rondel::rank_variables().size());
}

TEST_CASE("what an outer launcher left is replaced, nothing is there twice") {
  const Words words = rank_words({"RANK=0", "RONDEL_SECRET_FD=3", "MASTER_PORT=1", "A=1"}, {"A=2"});
  CHECK(has(words, "RANK=3"));
  CHECK(has(words, "RONDEL_SECRET_FD=7"));
  CHECK(has(words, "MASTER_PORT=4001"));
  CHECK(has(words, "A=2"));
  CHECK_FALSE(has(words, "A=1"));
  Words names;
  for (const std::string& word : words) names.push_back(word.substr(0, word.find('=')));
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("values arrive byte for byte") {
  const Words odd{"A=1 2",      "B=$HOME \"x\" \\",           "C=two\nlines",
                  "D=\xc3\xa9", "BASH_FUNC_f%%=() { echo; }", "E=a=b="};
  const Words words = rank_words(odd, {});
  for (const std::string& entry : odd) CHECK(has(words, entry));
}

TEST_CASE("a rank does not inherit the place that another launcher gave rondelrun") {
  const Words inherited{"A=1",      "SLURM_JOB_ID=4",         "SLURM_PROCID=0", "PMI_RANK=0",
                        "PMI_FD=7", "OMPI_COMM_WORLD_RANK=1", "PMIX_RANK=1"};
  const Words words = rank_words(inherited, {});
  for (const std::string& entry : inherited)
    CHECK(has(words, entry) == (entry == "A=1" || entry == "SLURM_JOB_ID=4"));
  CHECK(has(rank_words(inherited, {"PMI_RANK"}), "PMI_RANK=0"));
}

TEST_CASE("--env-none leaves what -x names") {
  const Words inherited{"A=1", "NCCL_DEBUG=INFO", "NCCL_NET=x", "NCC=3", "B=2"};
  const Words words = rank_words(inherited, {"A", "NCCL_*", "C=5"}, true);
  CHECK(has(words, "A=1"));
  CHECK(has(words, "NCCL_DEBUG=INFO"));
  CHECK(has(words, "NCCL_NET=x"));
  CHECK(has(words, "C=5"));
  CHECK_FALSE(has(words, "B=2"));
  CHECK_FALSE(has(words, "NCC=3"));
}

TEST_CASE("the user may choose the master address, not the rank") {
  const Words words = rank_words({}, {"MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"});
  CHECK(has(words, "MASTER_ADDR=10.0.0.1"));
  CHECK(has(words, "MASTER_PORT=29500"));
  CHECK_FALSE(has(words, "MASTER_PORT=4001"));
  for (const char* wrong : {"RANK=1", "RONDEL_RANK", "WORLD_SIZE=2", "RONDEL_SECRET_FD=0"}) {
    const auto base = base_environment({}, Words{wrong}, false);
    REQUIRE_FALSE(base.ok());
    CHECK_THAT(base.status().text(), Contains(wrong) && Contains("itself"));
  }
}

TEST_CASE("names that are none are refused, unset ones warned of") {
  for (const char* wrong : {"=x", "*"}) CHECK_FALSE(base_environment({}, Words{wrong}, false).ok());
  const auto base = base_environment(Words{"A=1"}, Words{"NOPE", "NO_*"}, false);
  REQUIRE(base.ok());
  REQUIRE(base->warnings.size() == 2);
  CHECK_THAT(base->warnings.front(), Contains("NOPE"));
}

TEST_CASE("variables of this host do not go to another one, unless -x names them") {
  const Words inherited{"HOME=/here", "PATH=/bin",          "SSH_AUTH_SOCK=/s",
                        "TMPDIR=/t",  "XDG_RUNTIME_DIR=/r", "TERM=x"};
  auto base = rondel::base_environment(inherited, Words{"TMPDIR", "-x"}, false);
  REQUIRE(base.ok());
  rondel::BaseEnvironment there = rondel::for_other_host(*base);
  CHECK(there.variables == Words{"PATH=/bin", "TERM=x", "TMPDIR=/t"});
  rondel::add_host_variables(there, Words{"HOME=/there", "TMPDIR=/other", "PATH=/other", "SSH_CLIENT=c"});
  CHECK(there.variables == Words{"PATH=/bin", "TERM=x", "TMPDIR=/t", "HOME=/there", "SSH_CLIENT=c"});
  base = rondel::base_environment(inherited, Words{"SSH_*"}, true);
  CHECK(rondel::for_other_host(*base).variables == Words{"SSH_AUTH_SOCK=/s"});
}
