// SPDX-License-Identifier: Apache-2.0
#include "tests/policy/docs.h"

#include <algorithm>
#include <regex>
#include <set>

namespace rondel::policy {

namespace {

const std::regex& variable_pattern() {
  static const std::regex kVariable(R"(\bRONDEL_[A-Z0-9_]*[A-Z0-9]\b)");
  return kVariable;
}

void collect(const std::string& line, std::set<std::string>& names) {
  for (std::sregex_iterator name(line.begin(), line.end(), variable_pattern()), end; name != end; ++name)
    names.insert(name->str());
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
  std::set<std::string> known(options.begin(), options.end());
  for (const File& file : tree)
    if (is_source(file))
      for (const std::string& line : code_of(file)) collect(line, known);
  std::vector<std::string> findings;
  for (const File& file : tree) {
    if (top_folder(file.path) == "tests" || !(is_source(file) || has_suffix(file.path, ".md"))) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      std::set<std::string> named;
      collect(file.lines[i], named);
      for (const std::string& name : named)
        if (!known.contains(name))
          findings.push_back(finding(file, i, name + " is no option of lib/config.cc"));
    }
  }
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
