// SPDX-License-Identifier: Apache-2.0
// The smaller parts of rondelrun doctor: schedule, clocks, where to look, what files say of devices.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "launcher/doctor/clock_probe.h"
#include "launcher/doctor/command.h"
#include "launcher/doctor/local_facts.h"
#include "launcher/doctor/probe_targets.h"
#include "launcher/doctor/schedule.h"
#include "tests/launcher/doctor/sample.h"
#include "tests/lib/temporary_directory.h"
#include "tests/support/seed.h"

namespace doctor = rondel::doctor;
using std::chrono::milliseconds;

namespace {

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text << "\n";
}

}  // namespace

TEST_CASE("each pair that reaches is measured once, as far as there is time, neighbours first") {
  rondel::test::Random random(rondel::test::test_seed());
  for (std::size_t hosts = 0; hosts <= 70; ++hosts) {
    std::vector<std::vector<bool>> reaches(hosts, std::vector<bool>(hosts));
    std::size_t count = 0;
    for (std::size_t from = 0; from < hosts; ++from)
      for (std::size_t to = 0; to < hosts; ++to)
        if (from != to && random.below(8) != 0) reaches[from][to] = true, ++count;
    const auto schedule = doctor::make_schedule(reaches, milliseconds(24'000));
    const std::set<std::pair<std::size_t, std::size_t>> once(schedule.pairs.begin(), schedule.pairs.end());
    CHECK(once.size() == schedule.pairs.size());
    CHECK(schedule.pairs.size() + schedule.left_out == count);
    for (const auto& [from, to] : schedule.pairs) CHECK(reaches[from][to]);
    CHECK(static_cast<long>(schedule.pairs.size()) * schedule.each < milliseconds(24'001));
    if (hosts < 8) CHECK(schedule.left_out == 0);
    for (std::size_t i = 0; i < hosts && hosts > 1; ++i)
      if (reaches[i][(i + 1) % hosts]) CHECK(once.contains({i, (i + 1) % hosts}));
  }
}

TEST_CASE("the quickest answer tells the clock, and an answer to nothing tells none") {
  doctor::ClockProbe probe;
  const doctor::ClockProbe::Steady start{};
  CHECK_FALSE(probe.tell(0, 5, start));
  const std::int64_t wall = 1'700'000'000'000'000'000, ahead = 2'500'000'000;
  for (std::uint32_t round = 0; round < doctor::ClockProbe::kRounds; ++round) {
    CHECK_FALSE(probe.done());
    const auto number = probe.ask(start, wall);
    const std::int64_t way_ns = 1'000'000 * (1 + (round + 3) % 8);  // there; back it takes twice as long
    CHECK_FALSE(probe.tell(number + 1, 5, start));
    CHECK_FALSE(probe.tell(number, ~std::uint64_t{0}, start));
    CHECK(probe.tell(number, static_cast<std::uint64_t>(wall + way_ns + ahead),
                     start + std::chrono::nanoseconds(3 * way_ns)));
    CHECK_FALSE(probe.tell(number, 5, start));
  }
  REQUIRE(probe.done());
  CHECK(probe.estimate()->uncertain_ns == 1'500'000);
  CHECK(std::abs(probe.estimate()->ahead_ns - ahead) <= 1'500'000);
}

TEST_CASE("a host looks for others in its own networks first, and not for those that are gone") {
  doctor::Findings findings = rondel::test::healthy(3);
  const auto nic = [](const char* name, const char* address, std::uint8_t bits, bool chosen) {
    return doctor::NicFacts{.name = name,
                            .address = address,
                            .prefix_bits = bits,
                            .mtu = 1500,
                            .speed_mbit_s = {},
                            .numa_node = {},
                            .chosen = chosen};
  };
  for (auto& host : findings.hosts) {
    auto& nics = host.facts->nics;
    nics.insert(nics.begin(), nic("docker0", "172.17.0.1", 16, true));
    nics.insert(nics.begin(), nic("far", "192.168.7.7", 24, &host == &findings.hosts[2]));
    host.facts->ports.listening = {4000, 4009};
  }
  const auto targets = doctor::targets_of(findings, 0, {true, false, true});
  REQUIRE(targets.size() == 1);
  CHECK(targets.front().host == 2);
  CHECK(targets.front().addresses == std::vector<std::string>{"10.0.0.3:4000", "10.0.0.3:4009",
                                                              "192.168.7.7:4000", "192.168.7.7:4009",
                                                              "172.17.0.1:4000", "172.17.0.1:4009"});
}

TEST_CASE("RDMA ports, GPUs and memory nodes are read from the system's files") {
  const rondel::test::TemporaryDirectory folder;
  const std::string& root = folder.path();
  const std::string port = root + "/sys/class/infiniband/mlx5_0/ports/1";
  CHECK(doctor::rdma_under(root).empty());
  CHECK(doctor::gpus_under(root).empty());
  write(port + "/state", "4: ACTIVE");
  write(port + "/link_layer", "InfiniBand");
  write(port + "/rate", "100 Gb/sec (4X EDR)");
  write(port + "/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
  write(port + "/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001");
  write(port + "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
  write(root + "/sys/class/infiniband/mlx5_0/device/numa_node", "1");
  const auto rdma = doctor::rdma_under(root);
  REQUIRE(rdma.size() == 1);
  CHECK(rdma[0].device == "mlx5_0");
  CHECK(rdma[0].port == 1);
  CHECK(rdma[0].state == "ACTIVE");
  CHECK(rdma[0].link_layer == "InfiniBand");
  CHECK(rdma[0].gids == 1);
  CHECK(rdma[0].numa_node == 1);
  const auto add_device = [&root](const std::string& address, const char* pci_class, const char* vendor) {
    const std::string device = root + "/sys/bus/pci/devices/" + address;
    write(device + "/class", pci_class), write(device + "/vendor", vendor),
        write(device + "/device", "0x20b0");
    write(device + "/numa_node", "-1");
  };
  add_device("0000:01:00.0", "0x030000", "0x1234");  // a screen of a virtual machine
  add_device("0000:02:00.0", "0x030200", "0x10de");
  add_device("0000:03:00.0", "0x020000", "0x15b3");
  write(root + "/proc/driver/nvidia/gpus/0000:02:00.0/information", "Model: \t\t A100-SXM4-40GB\nIRQ: 1");
  const auto gpus = doctor::gpus_under(root);
  REQUIRE(gpus.size() == 1);
  CHECK(gpus[0].pci == "0000:02:00.0");
  CHECK(gpus[0].model == "A100-SXM4-40GB");
  CHECK_FALSE(gpus[0].numa_node.has_value());
  for (const char* node : {"node10", "node2", "node", "nodex", "possible"})
    write(root + "/sys/devices/system/node/" + node + "/cpulist", "0-3");
  const auto numa = doctor::numa_under(root);
  REQUIRE(numa.size() == 2);
  CHECK((numa[0].node == 2 && numa[1].node == 10));
}

TEST_CASE("the facts of this host make sense") {
  const auto facts = doctor::gather_facts("");
  CHECK(facts.usable_cores >= 1);
  CHECK(facts.machine_cores >= facts.usable_cores);
  CHECK(facts.memory_bytes >= facts.memory_free_bytes);
  CHECK(facts.memory_free_bytes > 0);
  CHECK_FALSE(facts.kernel.empty());
  CHECK_FALSE(facts.nics.empty());
}

TEST_CASE("commands for people are what they would type") {
  rondel::Options options;
  options.program = {"./train", "two words"};
  const std::vector<std::string> arguments{"doctor", "-H", "a,b", "--json", "./train", "two words"};
  const std::string next = doctor::next_command(arguments, options, false);
  CHECK(next.ends_with("-H a,b ./train two\\ words"));
  const std::vector<std::string> odd{"doctor",    "--json",  "-dry-run", "--wdir",
                                     "data-json", "./train", "two words"};
  CHECK(doctor::next_command(odd, options, false).ends_with(" --wdir data-json ./train two\\ words"));
  options.program.clear();
  options.ranks = 3;
  CHECK(doctor::next_command(std::vector<std::string>{"doctor"}, options, true).find("-np 3 ") !=
        std::string::npos);
  const rondel::Host host{.user = "me", .name = "node", .ssh_port = 2222, .slots = 1};
  CHECK(doctor::login_by_hand(host, {.port = 1,
                                     .identity_file = "a key",
                                     .arguments = {"-v"},
                                     .wait = {},
                                     .remote_path = "/opt/rondelrun"}) ==
        "ssh -v -p 2222 -i a\\ key -l me node /opt/rondelrun --version");
}
