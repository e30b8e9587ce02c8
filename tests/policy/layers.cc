// SPDX-License-Identifier: Apache-2.0
#include "tests/policy/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

namespace rondel::policy {

namespace {

// "tcp" of "transports/tcp/link.h"; empty for the contract's own files.
std::string backend_of(std::string_view path) {
  if (top_folder(path) != "transports") return {};
  const std::string_view rest = path.substr(std::string_view("transports/").size());
  return std::string(top_folder(rest));
}

bool is_contract(std::string_view path) {
  return path == "transports/work.h" || path == "transports/endpoint.h" ||
         path == "transports/load_store.h" || path == "transports/transport.h";
}

bool transports_may(std::string_view from, std::string_view to) {
  if (from == "transports/registry.cc") return true;
  const std::string own = backend_of(from);
  const std::string other = backend_of(to);
  if (own.empty()) return other.empty();
  return other == own || (other.empty() && to != "transports/registry.h" && to != "transports/select.h");
}

// May `from` include the project's header `to`? Both are paths from the root, in different places or the
// same.
bool may_include(std::string_view from, std::string_view to) {
  const std::string_view folder = top_folder(from);
  const std::string_view target = top_folder(to);
  if (folder == "tests" || folder == "bench") return true;
  if (from.starts_with("bindings/c/include/") || folder == "docs") return false;
  if (target == "lib") return true;
  if (folder == "lib") return false;
  if (target == "transports" && folder == "transports") return transports_may(from, to);
  if (folder == target) return true;
  if (folder == "ring") return is_contract(to) || to == "transports/select.h";
  if (folder == "fusion") return target == "ring";
  if (folder == "launcher") return from == "launcher/main.cc" && to == "transports/registry.h";
  if (folder == "bindings" && target == "transports") return backend_of(to).empty();
  if (folder == "bindings") return target == "ring" || target == "fusion";
  return false;
}

// Third-party headers that only one place may know.
const char* third_party_home(std::string_view header) {
  if (header.starts_with("spdlog/")) return "lib/log.cc";
  if (header.starts_with("catch2/")) return "tests/";
  return nullptr;
}

}  // namespace

std::vector<std::string> layer_findings(const File& file) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
  static const std::set<std::string_view> kFolders{"bench", "bindings", "docs",  "fusion",    "launcher",
                                                   "lib",   "ring",     "tests", "transports"};
  std::vector<std::string> findings;
  if (!is_source(file)) return findings;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(file.lines[i], match, kInclude)) continue;
    const std::string header = match[2];
    if (kFolders.contains(top_folder(header)) && !may_include(file.path, header))
      findings.push_back(finding(file, i, "may not include " + header));
    const char* home = third_party_home(header);
    if (home != nullptr && !file.path.starts_with(home))
      findings.push_back(finding(file, i, "only " + std::string(home) + " may include <" + header + ">"));
  }
  return findings;
}

std::vector<std::string> backends_of(const std::vector<File>& tree) {
  std::set<std::string> names;
  for (const File& file : tree)
    if (!backend_of(file.path).empty()) names.insert(backend_of(file.path));
  return {names.begin(), names.end()};
}

std::vector<std::string> backend_name_findings(const File& file, const std::vector<std::string>& backends) {
  std::vector<std::string> findings;
  const std::string_view folder = top_folder(file.path);
  if (!is_source(file) || folder == "tests" || folder == "docs" || folder == "bench" ||
      file.path == "transports/registry.cc" || !backend_of(file.path).empty())
    return findings;
  const std::vector<std::string> code = code_of(file, Strings::keep);
  for (const std::string& backend : backends) {
    // its namespace (not Asio's ip::tcp), or its name as a string of its own
    const std::regex named("(^|[^:\\w]|rondel::)" + backend + "::|\"" + backend + "\"");
    const std::string what = fmt::format("names the backend {}; only transports/registry.cc may", backend);
    for (std::size_t i = 0; i < code.size(); ++i)
      if (std::regex_search(code[i], named)) findings.push_back(finding(file, i, what));
  }
  return findings;
}

}  // namespace rondel::policy
