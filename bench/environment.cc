// SPDX-License-Identifier: Apache-2.0
#include "bench/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

namespace rondel::bench {
namespace {

constexpr const char* kUnknown = "unknown";

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : kUnknown;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return kUnknown;
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, sizeof "2000-01-01T00:00:00Z"> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.date = date_now();
  utsname names{};
  const bool named = uname(&names) == 0;
  environment.host = named ? names.nodename : kUnknown;
  environment.kernel = named ? std::string(names.sysname) + " " + names.release : kUnknown;
  environment.machine = named ? names.machine : kUnknown;
  environment.processor = processor_name();
  environment.cores = sysconf(_SC_NPROCESSORS_ONLN);
  getloadavg(environment.load_average.data(), static_cast<int>(environment.load_average.size()));
  environment.congestion_control = first_line("/proc/sys/net/ipv4/tcp_congestion_control");
  return environment;
}

}  // namespace rondel::bench
