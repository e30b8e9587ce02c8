// SPDX-License-Identifier: Apache-2.0
#include "lib/config.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "lib/nearest_name.h"

using Catch::Matchers::Contains;
using rondel::Code;
using rondel::Config;
using rondel::LogLevel;
using rondel::Result;

namespace {

using Variables = std::map<std::string, std::string>;

Result<Config> config_from(const Variables& variables) {
  return Config::from_lookup([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const Variables& variables) {
  const auto config = config_from(variables);
  REQUIRE_FALSE(config.ok());
  CHECK(config.code() == Code::invalid_argument);
  return config.status().text();
}

}  // namespace

TEST_CASE("an empty environment gives the defaults") {
  const auto config = config_from({});
  REQUIRE(config.ok());
  CHECK_FALSE(config->rank.has_value());
  CHECK_FALSE(config->secret_fd.has_value());
  CHECK(config->transport.empty());
  CHECK(config->timeout == std::chrono::seconds(300));
  CHECK(config->log_level == LogLevel::warn);
}

TEST_CASE("the defaults in the table are the defaults of the struct") {
  Variables variables;
  for (const auto& option : rondel::config_options())
    if (option.default_value != "unset") variables[std::string(option.name)] = option.default_value;
  const auto written = config_from(variables);
  const Config kept;
  REQUIRE(written.ok());
  CHECK(written->segment_bytes == kept.segment_bytes);
  CHECK(written->tcp_congestion == kept.tcp_congestion);
  CHECK(written->spin == kept.spin);
  CHECK(written->encrypt == kept.encrypt);
  CHECK(written->timeout == kept.timeout);
  CHECK(written->start_timeout == kept.start_timeout);
  CHECK(written->handshake_timeout == kept.handshake_timeout);
  CHECK(written->silence_timeout == kept.silence_timeout);
  CHECK(written->log_level == kept.log_level);
}

TEST_CASE("a pod's index is its rank where the size is told, and nothing where it is not") {
  const auto pod = config_from({{"JOB_COMPLETION_INDEX", "3"}, {"RONDEL_SIZE", "4"}});
  REQUIRE(pod.ok());
  CHECK(pod->rank == 3);
  const auto alone = config_from({{"JOB_COMPLETION_INDEX", "3"}});
  REQUIRE(alone.ok());
  CHECK_FALSE(alone->rank);
  const auto named = config_from({{"JOB_COMPLETION_INDEX", "3"}, {"RANK", "1"}, {"WORLD_SIZE", "4"}});
  REQUIRE(named.ok());
  CHECK(named->rank == 1);
}

TEST_CASE("every option is read under its own name") {
  const auto config = config_from({{"RONDEL_RANK", "3"},
                                   {"RONDEL_SIZE", "8"},
                                   {"RONDEL_LOCAL_RANK", "1"},
                                   {"RONDEL_LOCAL_SIZE", "4"},
                                   {"RONDEL_STORE", "tcp://[::1]:4000"},
                                   {"RONDEL_JOB", "job-1"},
                                   {"RONDEL_SECRET_FD", "5"},
                                   {"RONDEL_SECRET_FILE", "/run/secret"},
                                   {"RONDEL_TRANSPORT", "tcp"},
                                   {"RONDEL_ALGORITHM", "circulant"},
                                   {"RONDEL_SEGMENT_BYTES", "64K"},
                                   {"RONDEL_NET", "eth0,^docker0"},
                                   {"RONDEL_PORTS", "40000-40010"},
                                   {"RONDEL_TCP_CONGESTION", "system"},
                                   {"RONDEL_SPIN_US", "0"},
                                   {"RONDEL_ENCRYPT", "Yes"},
                                   {"RONDEL_TIMEOUT_S", "2.5"},
                                   {"RONDEL_START_TIMEOUT_S", "7"},
                                   {"RONDEL_HANDSHAKE_TIMEOUT_S", "0.25"},
                                   {"RONDEL_SILENCE_TIMEOUT_S", "1e1"},
                                   {"RONDEL_LOG", "debug"}});
  REQUIRE(config.ok());
  CHECK(config->rank == 3);
  CHECK(config->size == 8);
  CHECK(config->local_rank == 1);
  CHECK(config->local_size == 4);
  CHECK(config->store == "tcp://[::1]:4000");
  CHECK(config->job == "job-1");
  CHECK(config->secret_fd == 5);
  CHECK(config->secret_file == "/run/secret");
  CHECK(config->transport == "tcp");
  CHECK(config->algorithm == "circulant");
  CHECK(config->segment_bytes == 65536);
  CHECK(config->net == "eth0,^docker0");
  CHECK(config->port_range == "40000-40010");
  CHECK(config->tcp_congestion == "system");
  CHECK(config->spin.count() == 0);
  CHECK(config->encrypt);
  CHECK(config->timeout == std::chrono::milliseconds(2500));
  CHECK(config->start_timeout == std::chrono::seconds(7));
  CHECK(config->handshake_timeout == std::chrono::milliseconds(250));
  CHECK(config->silence_timeout == std::chrono::seconds(10));
  CHECK(config->log_level == LogLevel::debug);
}

TEST_CASE("other launchers' names are the fallback, ours win, empty is unset") {
  const auto torch =
      config_from({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}});
  REQUIRE(torch.ok());
  CHECK(torch->rank == 1);
  CHECK(torch->size == 2);
  CHECK(torch->local_rank == 1);
  CHECK(torch->local_size == 2);
  const auto both =
      config_from({{"RANK", "rubbish"}, {"WORLD_SIZE", "2"}, {"RONDEL_RANK", "4"}, {"RONDEL_SIZE", "5"}});
  REQUIRE(both.ok());
  CHECK(both->rank == 4);
  CHECK(both->size == 5);
  const auto empty =
      config_from({{"RONDEL_RANK", ""}, {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"RONDEL_LOG", ""}});
  REQUIRE(empty.ok());
  CHECK(empty->rank == 0);
}

TEST_CASE("half an identity is an error that names the found half") {
  CHECK_THAT(error_of({{"RONDEL_RANK", "3"}}), Contains("RONDEL_RANK is 3") && Contains("no size"));
  CHECK_THAT(error_of({{"RANK", "3"}}), Contains("RANK is 3") && Contains("WORLD_SIZE"));
  // Scripts export it beside other launchers, which say who this process is.
  for (const char* other : {"SLURM_STEP_ID", "PMI_RANK", "OMPI_COMM_WORLD_RANK"}) {
    CHECK_FALSE(config_from({{"WORLD_SIZE", "8"}, {other, "0"}})->size);
    CHECK_THAT(error_of({{"RONDEL_SIZE", "8"}, {other, "0"}}), Contains("RONDEL_SIZE is 8"));
  }
  CHECK_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "65537"}}), Contains("from 1 to 65536"));
  CHECK_THAT(error_of({{"RONDEL_SIZE", "4"}}), Contains("RONDEL_SIZE is 4") && Contains("no rank"));
  CHECK_THAT(error_of({{"JOB_COMPLETION_INDEX", "4"}, {"RONDEL_SIZE", "4"}}),
             Contains("JOB_COMPLETION_INDEX is 4") && Contains("0 to 3"));
}

TEST_CASE("ranks must lie inside their sizes") {
  CHECK_THAT(error_of({{"RANK", "4"}, {"RONDEL_SIZE", "4"}}),
             Contains("RANK is 4") && Contains("0 to 3") && Contains("RONDEL_SIZE is 4"));
  CHECK_THAT(error_of({{"RONDEL_LOCAL_RANK", "2"}, {"RONDEL_LOCAL_SIZE", "2"}}),
             Contains("RONDEL_LOCAL_RANK is 2"));
  CHECK_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}}),
             Contains("LOCAL_WORLD_SIZE is 3") && Contains("at most 2"));
}

TEST_CASE("a wrong value is an error with variable, value and expectation") {
  const Variables wrong{{"RONDEL_RANK", "-1"},
                        {"RONDEL_SIZE", "0"},
                        {"RONDEL_LOCAL_RANK", "1x"},
                        {"RONDEL_LOCAL_SIZE", "99999999999"},
                        {"RONDEL_SECRET_FD", "three"},
                        {"RONDEL_STORE", "127.0.0.1:99"},
                        {"RONDEL_ALGORITHM", "rings"},
                        {"RONDEL_SEGMENT_BYTES", "64Q"},
                        {"RONDEL_PORTS", "5000-4000"},
                        {"RONDEL_SPIN_US", "-5"},
                        {"RONDEL_ENCRYPT", "maybe"},
                        {"RONDEL_TIMEOUT_S", "nan"},
                        {"RONDEL_START_TIMEOUT_S", "0"},
                        {"RONDEL_HANDSHAKE_TIMEOUT_S", "5s"},
                        {"RONDEL_SILENCE_TIMEOUT_S", "-2"},
                        {"RONDEL_LOG", "loud"}};
  for (const auto& [name, value] : wrong)
    CHECK_THAT(error_of({{name, value}}),
               Contains(name) && Contains("\"" + value + "\"") && Contains("expected"));
  for (const char* value :
       {"tcp://host", "tcp://:1", "tcp://host:0", "tcp://host:70000", "file://", "file:///"})
    CHECK_THAT(error_of({{"RONDEL_STORE", value}}), Contains("tcp://host:port"));
  for (const char* value : {"40000", "0-10", "1-70000", "a-b", "-", "10-"})
    CHECK_THAT(error_of({{"RONDEL_PORTS", value}}), Contains("first-last"));
  for (const char* value : {"K", "-1", "2000G", "99999999999999999999", "1.5M"})
    CHECK_THAT(error_of({{"RONDEL_SEGMENT_BYTES", value}}), Contains("bytes"));
}

TEST_CASE("the help names every option with unit, default and alias") {
  const std::string help = rondel::config_help();
  for (const auto& option : rondel::config_options()) {
    CHECK_THAT(help, Contains(std::string(option.name)) && Contains(std::string(option.text)) &&
                         Contains(std::string(option.unit)));
    CHECK(option.name.starts_with("RONDEL_"));
  }
  CHECK_THAT(help, Contains("RONDEL_RANK (else RANK)") && Contains("default: 300"));
}

TEST_CASE("the process environment is read") {
  REQUIRE(setenv("RONDEL_TIMEOUT_S", "11", 1) == 0);
  const auto config = Config::from_environment();
  REQUIRE(unsetenv("RONDEL_TIMEOUT_S") == 0);
  REQUIRE(config.ok());
  CHECK(config->timeout == std::chrono::seconds(11));
  CHECK(rondel::environment_variable("RONDEL_TIMEOUT_S") == nullptr);
}

TEST_CASE("the nearest name is the one with the fewest edits, or none") {
  constexpr std::array<std::string_view, 4> kNames{"timeout", "transport", "np", "stdin"};
  CHECK(rondel::nearest_name("timout", kNames) == "timeout");
  CHECK(rondel::nearest_name("tiemout", kNames) == "timeout");
  CHECK(rondel::nearest_name("transports", kNames) == "transport");
  CHECK(rondel::nearest_name("pn", kNames) == "np");
  CHECK(rondel::nearest_name("completely-different", kNames).empty());
  CHECK(rondel::nearest_name("", kNames).empty());
  CHECK(rondel::nearest_name("x", {}).empty());
}
