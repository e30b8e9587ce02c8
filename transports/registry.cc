// SPDX-License-Identifier: Apache-2.0
#include "transports/registry.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <string_view>

#include "transports/loopback/transport.h"
#include "transports/mux/transport.h"
#ifdef RONDEL_HAVE_SHM
#include "transports/shm/transport.h"
#endif
#ifdef RONDEL_HAVE_TCP
#include "transports/tcp/transport.h"
#endif
#ifdef RONDEL_HAVE_VERBS
#include "transports/verbs/transport.h"
#endif

namespace rondel {

namespace {

using Make = std::unique_ptr<Transport> (*)(const Config&, const Secret&);

#ifdef RONDEL_HAVE_SHM
constexpr Make kMakeShm = &shm::make_transport;
#else
constexpr Make kMakeShm = nullptr;
#endif
#ifdef RONDEL_HAVE_TCP
constexpr Make kMakeTcp = &tcp::make_transport;
#else
constexpr Make kMakeTcp = nullptr;
#endif

#ifdef RONDEL_HAVE_VERBS
constexpr Make kMakeVerbs = &verbs::make_transport;
#else
constexpr Make kMakeVerbs = nullptr;
#endif

/// A backend that connects processes. Without `make` it is not in this build, for the reason given.
struct Row {
  std::string_view name;
  Make make;
  std::string_view why_not_built;
};

constexpr std::string_view kInner = "shm", kForThreads = "loopback";

// Those after shm are joined with it as mux transports too.
constexpr std::array<Row, 4> kRows{{
    {"nccl", nullptr, "not in this version"},
    {"shm", kMakeShm, "configure with -Dshm=enabled"},
    {"verbs", kMakeVerbs,
     "built without libibverbs' headers; install libibverbs-dev and configure with -Dverbs=enabled"},
    {"tcp", kMakeTcp, "built without Boost; install libboost-dev and configure with -Dtcp=enabled"},
}};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_transports(const Config& config, const Secret& secret) {
  std::vector<std::unique_ptr<Transport>> transports;
  Transport* inner = nullptr;
  for (const Row& row : kRows) {
    if (row.make == nullptr) continue;
    transports.push_back(row.make(config, secret));
    Transport& made = *transports.back();
    if (row.make == kMakeShm)
      inner = &made;
    else if (inner != nullptr)
      transports.push_back(mux::make_transport(*inner, made, config.spin));
  }
  transports.push_back(loopback::make_transport());  // ranks that are threads of one process
  return transports;
}

std::vector<BackendReport> report_backends(const Config& config) {
  std::vector<BackendReport> reports;
  // Nothing connects while it is only looked at, so any secret will do.
  const auto secret = Secret::generate();
  if (secret.ok())
    for (const auto& transport : make_transports(config, *secret))
      reports.push_back({.name = std::string(transport->name()),
                         .built = true,
                         .joins_processes = transport->name() != kForThreads,
                         .probe = transport->probe()});
  for (const Row& row : kRows)
    if (row.make == nullptr)
      reports.push_back({.name = std::string(row.name),
                         .built = false,
                         .probe = {.usable = false, .why_not = std::string(row.why_not_built)}});
  return reports;
}

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  bool joined = false;
  for (const Row& row : kRows) {
    names.emplace_back(row.name);
    if (joined) names.push_back(fmt::format("{}+{}", kInner, row.name));
    joined = joined || row.name == kInner;
  }
  names.emplace_back(kForThreads);
  return names;
}

}  // namespace rondel
