// SPDX-License-Identifier: Apache-2.0
#include "launcher/options.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

using Catch::Matchers::Contains;
using rondel::Action;
using rondel::Options;
using Words = std::vector<std::string>;

namespace {

Options options_of(const Words& words) {
  auto options = rondel::parse_options(words);
  INFO(options.status().text());
  REQUIRE(options.ok());
  return *std::move(options);
}

std::string error_of(const Words& words) {
  const auto options = rondel::parse_options(words);
  REQUIRE_FALSE(options.ok());
  CHECK(options.code() == rondel::Code::invalid_argument);
  return options.status().text();
}

}  // namespace

TEST_CASE("the plainest command line") {
  const Options options = options_of({"-np", "4", "python", "train.py", "-n", "3"});
  CHECK(options.action == Action::run);
  CHECK(options.ranks == 4);
  CHECK(options.program == Words{"python", "train.py", "-n", "3"});
  CHECK(options.tag_output);
  CHECK_FALSE(options.timeout.has_value());
  CHECK(options.kill_grace == std::chrono::seconds(5));
  CHECK(options.stdin_rank == 0);
  CHECK(options.exports.empty());
}

TEST_CASE("every option reaches its field") {
  const Options options = options_of({"--num-proc",
                                      "3",
                                      "-x",
                                      "A",
                                      "-x",
                                      "B=[1,2]",
                                      "-x",
                                      "NCCL_*",
                                      "--env-none",
                                      "--wdir",
                                      "/tmp",
                                      "--no-tag-output",
                                      "--timestamp-output",
                                      "--output-filename",
                                      "logs",
                                      "--timeout",
                                      "2.5",
                                      "--start-timeout",
                                      "7",
                                      "--kill-grace",
                                      "0.25",
                                      "--transport",
                                      "tcp",
                                      "--net",
                                      "eth0",
                                      "--algorithm",
                                      "ring",
                                      "--stdin",
                                      "2",
                                      "-v",
                                      "--allow-run-as-root",
                                      "--bind-to",
                                      "none",
                                      "-map-by",
                                      "node",
                                      "-H",
                                      "a:2,[::1]",
                                      "--npernode",
                                      "4",
                                      "--oversubscribe",
                                      "p"});
  CHECK(options.ranks == 3);
  CHECK(options.exports == Words{"A", "B=[1,2]", "NCCL_*", "RONDEL_TRANSPORT=tcp", "RONDEL_NET=eth0",
                                 "RONDEL_ALGORITHM=ring", "RONDEL_START_TIMEOUT_S=7"});
  CHECK(options.only_exports);
  CHECK(options.directory == "/tmp");
  CHECK_FALSE(options.tag_output);
  CHECK(options.timestamp_output);
  CHECK(options.output_directory == "logs");
  CHECK(options.timeout == std::chrono::milliseconds(2500));
  CHECK(options.kill_grace == std::chrono::milliseconds(250));
  CHECK(options.stdin_rank == 2);
  CHECK(options.verbose);
  CHECK(options.warnings.empty());
  REQUIRE(options.hosts.size() == 2);
  CHECK(options.hosts[0] == rondel::Host{.name = "a", .slots = 2});
  CHECK(options.hosts[1] == rondel::Host{.name = "::1"});
  CHECK(options.per_host == 4);
  CHECK(options.map_by == rondel::MapBy::node);
  CHECK(options.oversubscribe);
}

TEST_CASE("what other launchers' lines hold") {
  CHECK(options_of({"-np", "2", "--stdin", "none", "p"}).stdin_rank == std::nullopt);
  CHECK(options_of({"-np", "2", "-np", "3", "p"}).ranks == 3);
  const Options mca =
      options_of({"-np", "2", "--mca", "btl_tcp_if_include", "eth0", "-mca", "pml", "ob1", "p"});
  REQUIRE(mca.warnings.size() == 2);
  CHECK_THAT(mca.warnings.front(), Contains("btl_tcp_if_include eth0") && Contains("--net"));
  CHECK(mca.program == Words{"p"});
}

TEST_CASE("actions that need no program") {
  CHECK(options_of({"--help"}).action == Action::help);
  CHECK(options_of({"-V"}).action == Action::version);
  CHECK(options_of({"--help-config"}).action == Action::help_config);
  CHECK(options_of({"-cb"}).action == Action::check_build);
  CHECK(options_of({"--dry-run", "--json", "-np", "1", "p"}).action == Action::dry_run);
}

TEST_CASE("errors name the option, the value and what was expected") {
  CHECK_THAT(error_of({}), Contains("no program"));
  CHECK_THAT(error_of({"-np", "2"}), Contains("no program"));
  for (const char* count : {"0", "-1", "two", "1.5", "70000", "99999999999"})
    CHECK_THAT(error_of({"-np", count, "p"}), Contains("--np") && Contains(count) && Contains("1 to 65536"));
  for (const char* seconds : {"0", "-3", "nan", "inf", "soon", "1e9"})
    CHECK_THAT(error_of({"-np", "1", "--timeout", seconds, "p"}),
               Contains("--timeout") && Contains(seconds) && Contains("expected seconds"));
  for (const char* choice : {"all", "-1"})
    CHECK_THAT(error_of({"-np", "2", "--stdin", choice, "p"}), Contains("--stdin") && Contains(choice));
  CHECK_THAT(error_of({"-np", "2", "--json", "p"}), Contains("--dry-run"));
  CHECK_THAT(error_of({"-np", "2", "-l", "--no-tag-output", "p"}), Contains("contradict"));
  CHECK_THAT(error_of({"-np", "2", "--bind-to", "l3cache", "p"}),
             Contains("--bind-to") && Contains("\"l3cache\"") && Contains("core") && Contains("none"));
}

TEST_CASE("a second program in the same job is refused, a lone colon is the program's") {
  CHECK_THAT(error_of({"-np", "1", "a", ":", "-np", "2", "b"}), Contains("several programs"));
  CHECK(rondel::parse_options(Words{"-np", "1", "a", ":", "b"}).ok());
}

TEST_CASE("hosts are named as other launchers name them") {
  for (const char* option : {"-H", "--hosts", "--host", "-host", "-hosts"}) {
    const Options options = options_of({option, "a:2,u@n[1-2]", "p"});
    CHECK(options.ranks == 0);  // every slot takes one
    CHECK(options.hosts.size() == 3);
    CHECK(options.host_file.empty());
  }
  for (const char* option : {"--hostfile", "-hostfile", "--machinefile", "-machinefile", "-f"}) {
    const Options options = options_of({option, "nodes", "p"});
    CHECK(options.host_file == "nodes");
    CHECK(options.hosts.empty());
  }
  for (const char* option : {"-N", "--ppn", "-ppn", "--npernode", "-npernode", "--nproc-per-node"})
    CHECK(options_of({option, "3", "p"}).per_host == 3);
  CHECK(options_of({"-N3", "-n6", "p"}).per_host == 3);
  CHECK(options_of({"-np", "2", "p"}).map_by == rondel::MapBy::slot);
  CHECK(options_of({"-np", "2", "--map-by", "slot", "p"}).map_by == rondel::MapBy::slot);
}

TEST_CASE("binding is asked for as of mpirun, and nothing is bound by default") {
  CHECK(options_of({"-np", "2", "p"}).binding.to == rondel::BindTo::none);
  const Options core = options_of({"-np", "2", "-bind-to", "core", "p"});
  CHECK(core.binding.to == rondel::BindTo::core);
  CHECK(core.binding.by == rondel::TakeBy::target);
  CHECK_FALSE(core.binding.overload);
  const Options numa =
      options_of({"-np", "2", "--bind-to", "numa:overload-allowed", "--map-by", "socket", "p"});
  CHECK(numa.binding.to == rondel::BindTo::numa);
  CHECK(numa.binding.by == rondel::TakeBy::socket);
  CHECK(numa.binding.overload);
  CHECK(numa.map_by == rondel::MapBy::slot);
  CHECK(numa.warnings.empty());
  const Options unbound = options_of({"-np", "2", "--map-by", "socket", "p"});
  REQUIRE(unbound.warnings.size() == 1);
  CHECK_THAT(unbound.warnings.front(), Contains("--map-by socket") && Contains("--bind-to"));
  CHECK(options_of({"-np", "2", "--bind-to", "none", "--map-by", "slot", "p"}).warnings.empty());
}

TEST_CASE("the command line of an MPIJob's launcher pod is understood") {
  const Options options = options_of({"-np",
                                      "4",
                                      "--allow-run-as-root",
                                      "-bind-to",
                                      "none",
                                      "-map-by",
                                      "slot",
                                      "-x",
                                      "NCCL_DEBUG=INFO",
                                      "-x",
                                      "LD_LIBRARY_PATH",
                                      "-x",
                                      "PATH",
                                      "-mca",
                                      "pml",
                                      "ob1",
                                      "-mca",
                                      "btl",
                                      "^openib",
                                      "--hostfile",
                                      "/etc/mpi/hostfile",
                                      "python3",
                                      "train.py",
                                      "-np",
                                      "7"});
  CHECK(options.ranks == 4);
  CHECK(options.host_file == "/etc/mpi/hostfile");
  CHECK(options.exports.size() == 3);
  CHECK(options.warnings.size() == 2);
  CHECK(options.program == Words{"python3", "train.py", "-np", "7"});
}

TEST_CASE("brackets and commas of a host list arrive as they were written") {
  CHECK(options_of({"-H", "[::1]", "p"}).hosts.front().name == "::1");
  CHECK(options_of({"-H=[::1],[::2]:3", "p"}).hosts.size() == 2);
  CHECK(options_of({"-H", "n[1,3]", "p"}).hosts.back().name == "n3");
  CHECK(options_of({"-H", "a,b", "--host", "a:2", "p"}).hosts.front().slots == 3);
}

TEST_CASE("wrong hosts and placements are refused with the option") {
  CHECK_THAT(error_of({"-H", "a,,b", "p"}), Contains("-H: ") && Contains("\"a,,b\""));
  CHECK_THAT(error_of({"-H", "a:0", "p"}), Contains("-H: ") && Contains("\"a:0\""));
  CHECK_THAT(error_of({"-H", "a", "--hostfile", "f", "p"}), Contains("-H and --hostfile"));
  CHECK_THAT(error_of({"-np", "2", "--map-by", "ppr:2:node", "p"}),
             Contains("--map-by") && Contains("\"ppr:2:node\"") && Contains("slot") && Contains("node"));
  for (const char* count : {"0", "-1", "gpu", "65537"})
    CHECK_THAT(error_of({"-N", count, "p"}), Contains("--ppn") && Contains(count) && Contains("1 to 65536"));
}

TEST_CASE("the help shows every option, the hidden ones excepted") {
  const std::string usage = rondel::usage_text();
  for (const auto& row : rondel::option_rows()) {
    CHECK_THAT(usage, Contains(row.names) && Contains(row.text));
    CHECK_FALSE(row.text.empty());
  }
  CHECK_THAT(usage, Contains("-n, --np, --num-proc N") && !Contains("--man-page"));
}

TEST_CASE(
    "doctor as the first word asks for an examination, with the options of a job and maybe its program") {
  const Options options =
      options_of({"doctor", "-H", "a:2,b", "--net", "eth0", "--json", "-p", "22", "./train", "doctor"});
  CHECK(options.action == Action::doctor);
  CHECK(options.hosts.size() == 2);
  CHECK(options.json);
  CHECK(options.ssh.port == 22);
  CHECK(options.exports == Words{"RONDEL_NET=eth0"});
  CHECK(options.program == Words{"./train", "doctor"});
  CHECK(options_of({"doctor"}).action == Action::doctor);
  CHECK(options_of({"doctor", "--help"}).action == Action::help);
  CHECK(options_of({"-np", "2", "doctor"}).action == Action::run);
  CHECK(options_of({"-np", "2", "doctor"}).program == Words{"doctor"});
  CHECK_THAT(error_of({"doctor", "-H", "a", "-f", "b"}), Contains("both given"));
  CHECK_THAT(error_of({"--json", "-np", "1", "true"}), Contains("doctor"));
  CHECK(*rondel::config_file_in(Words{"doctor", "--config-file", "f", "x"}) == "f");
}
