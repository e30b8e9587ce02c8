// SPDX-License-Identifier: Apache-2.0
#include "tests/policy/docs.h"

#include <algorithm>
#include <regex>
#include <set>

namespace rondel::policy {

namespace {

bool is_man_page(const File& file) {
  static const std::regex kName(R"(^docs/.*\.[1-8](\.in)?$)");
  return std::regex_match(file.path, kName);
}

// Man pages write RONDEL_A as it is or with roff's escapes: RONDEL\_A.
std::string without_roff_escapes(std::string text) {
  std::erase(text, '\\');
  return text;
}

}  // namespace

std::vector<std::string> link_findings(const File& file, const std::filesystem::path& root) {
  static const std::regex kLink(R"(\]\(([^)\s#]+)(#[^)]*)?\))");
  std::vector<std::string> findings;
  if (!has_suffix(file.path, ".md")) return findings;
  const std::filesystem::path folder = (root / file.path).parent_path();
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    for (std::sregex_iterator link(line.begin(), line.end(), kLink), end; link != end; ++link) {
      const std::string target = (*link)[1];
      if (target.find(':') == std::string::npos && !std::filesystem::exists(folder / target))
        findings.push_back(finding(file, i, "link to " + target + ", which does not exist"));
    }
  }
  return findings;
}

std::vector<std::string> option_findings(const std::vector<File>& tree,
                                         std::span<const std::string_view> options) {
  static const std::regex kVariable(R"(\bRONDEL_[A-Z0-9_]*[A-Z0-9]\b)");
  std::set<std::string> described;
  std::vector<std::string> findings;
  for (const File& file : tree) {
    if (!is_man_page(file) || file.path.find("/examples/") != std::string::npos) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string line = without_roff_escapes(file.lines[i]);
      for (std::sregex_iterator name(line.begin(), line.end(), kVariable), end; name != end; ++name) {
        described.insert(name->str());
        const bool known = std::find(options.begin(), options.end(), name->str()) != options.end();
        const bool constant_of_the_api = file.path.find("rondel.3") != std::string::npos;
        if (!known && !constant_of_the_api)
          findings.push_back(finding(file, i, name->str() + " is no option of lib/config.cc"));
      }
    }
  }
  for (const std::string_view option : options)
    if (!described.contains(std::string(option)))
      findings.push_back(std::string(option) + " is described in no man page under docs/");
  return findings;
}

std::vector<std::string> top_level_findings(const std::filesystem::path& root) {
  static const std::set<std::string> kAllowed{
      "meson.build",  "meson_options.txt", "lib",     "transports", "ring", "fusion",
      "launcher",     "bindings",          "tests",   "bench",      "docs", "README.md",
      "CHANGELOG.md", "CONTRIBUTING.md",   "LICENSE", "quickstart", "check"};
  std::vector<std::string> findings;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (!kAllowed.contains(name) && !name.starts_with(".") && !name.starts_with("build"))
      findings.push_back(name + ": the layout has no place for it at the top level");
  }
  return findings;
}

}  // namespace rondel::policy
