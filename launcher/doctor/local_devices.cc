// SPDX-License-Identifier: Apache-2.0
// The part of local_facts.h that looks for devices.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "launcher/doctor/local_facts.h"
#include "lib/system_files.h"

namespace rondel::doctor {
namespace {

std::string value_after(const std::string& text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string::npos) return {};
  const auto start = text.find_first_not_of(" \t", at + key.size());
  return start == std::string::npos ? std::string() : text.substr(start, text.find('\n', start) - start);
}

int gids_of(const std::string& port) {
  int count = 0;
  for (const std::string& entry : names_in(port + "/gids")) {
    const std::string gid = first_line(port + "/gids/" + entry);
    // An empty place reads as zeros, or can not be read.
    count += gid.find_first_not_of("0:") != std::string::npos && !gid.starts_with("fe80:0000:0000:0000:0000:")
                 ? 1
                 : 0;
  }
  return count;
}

/// "4: ACTIVE" -> "ACTIVE".
std::string state_of(const std::string& line) {
  const auto colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

/// Display controllers without a screen, accelerators, and cards of the two makers whose GPUs also have
/// screens.
bool is_gpu(const std::string& pci_class, const std::string& vendor) {
  if (pci_class.starts_with("0x0302") || pci_class.starts_with("0x1200")) return true;
  return pci_class.starts_with("0x0300") && (vendor == "0x10de" || vendor == "0x1002");
}

}  // namespace

std::vector<RdmaFacts> rdma_under(const std::string& root) {
  std::vector<RdmaFacts> found;
  const std::string folder = root + "/sys/class/infiniband";
  for (const std::string& device : names_in(folder)) {
    const std::string ports = folder + "/" + device + "/ports";
    for (const std::string& number : names_in(ports)) {
      const std::string port = ports + "/" + number;
      RdmaFacts facts;
      facts.device = device;
      std::from_chars(number.data(), number.data() + number.size(), facts.port);
      facts.state = state_of(first_line(port + "/state"));
      facts.link_layer = first_line(port + "/link_layer");
      facts.rate = first_line(port + "/rate");
      facts.gids = gids_of(port);
      facts.numa_node = numa_node_of(folder + "/" + device + "/device");
      found.push_back(std::move(facts));
    }
  }
  return found;
}

std::vector<GpuFacts> gpus_under(const std::string& root) {
  std::vector<GpuFacts> found;
  const std::string folder = root + "/sys/bus/pci/devices";
  for (const std::string& address : names_in(folder)) {
    const std::string device = folder + "/" + address;
    const std::string vendor = first_line(device + "/vendor");
    if (!is_gpu(first_line(device + "/class"), vendor)) continue;
    const std::string driver =
        whole_text(fmt::format("{}/proc/driver/nvidia/gpus/{}/information", root, address));
    std::string model = value_after(driver, "Model:");
    if (model.empty()) model = fmt::format("{}:{}", vendor, first_line(device + "/device"));
    found.push_back({.pci = address, .model = std::move(model), .numa_node = numa_node_of(device)});
  }
  return found;
}

std::vector<NumaFacts> numa_under(const std::string& root) {
  std::vector<NumaFacts> found;
  const std::string folder = root + "/sys/devices/system/node";
  for (const std::string& name : names_in(folder)) {
    constexpr std::string_view kNode = "node";
    NumaFacts facts;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(kNode)) continue;
    const auto number = std::from_chars(name.data() + kNode.size(), end, facts.node);
    if (number.ec != std::errc() || number.ptr != end) continue;
    facts.cpus = first_line(folder + "/" + name + "/cpulist");
    found.push_back(std::move(facts));
  }
  std::sort(found.begin(), found.end(),
            [](const NumaFacts& one, const NumaFacts& other) { return one.node < other.node; });
  return found;
}

}  // namespace rondel::doctor
