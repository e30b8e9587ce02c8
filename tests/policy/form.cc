// SPDX-License-Identifier: Apache-2.0
#include "tests/policy/form.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <string_view>

namespace rondel::policy {

namespace {

enum class Scope { open, function, other };  // open: namespace or class, where functions can be defined

struct Block {
  Scope scope = Scope::other;
  std::size_t first_line = 0;
};

bool begins_with_word(std::string_view statement, std::string_view word) {
  return statement.starts_with(word) &&
         (statement.size() == word.size() ||
          std::isalnum(static_cast<unsigned char>(statement[word.size()])) == 0);
}

// What a brace opens, from the statement in front of it and the block around it.
Scope scope_of(std::string_view statement, bool in_open_scope) {
  constexpr std::array kOpeners{"namespace", "class", "struct", "union", "extern", "template"};
  if (!in_open_scope) return Scope::other;
  const bool call = statement.find('(') != std::string_view::npos;
  const bool opener = std::any_of(kOpeners.begin(), kOpeners.end(),
                                  [&](const char* word) { return begins_with_word(statement, word); });
  if (opener && (!call || begins_with_word(statement, "namespace"))) return Scope::open;
  return call ? Scope::function : Scope::other;
}

class BraceReader {
 public:
  void read_line(std::size_t index, const std::string& code) {
    for (std::size_t i = 0; i < code.size(); ++i) {
      const char c = code[i];
      if (c == '{') {
        open(i > 0 && code[i - 1] != ' ' && code[i - 1] != ')', index);
      } else if (c == '}') {
        close(index);
      } else if (c == ';' || (c == ':' && is_access_label())) {
        statement_.clear();
      } else if (c != ' ' || !statement_.empty()) {
        if (statement_.empty()) statement_line_ = index;
        statement_ += c;
      }
    }
    if (!statement_.empty()) statement_ += ' ';
  }
  std::vector<FunctionSize> take() { return std::move(found_); }

 private:
  void open(bool initialiser, std::size_t index) {
    const bool in_open_scope = blocks_.empty() || blocks_.back().scope == Scope::open;
    if (initialiser) {  // a_{1}: part of the statement, which goes on behind it
      blocks_.push_back({Scope::other, index});
      kept_.push_back(statement_);
      return;
    }
    blocks_.push_back({scope_of(statement_, in_open_scope), statement_.empty() ? index : statement_line_});
    kept_.emplace_back();
    statement_.clear();
  }
  bool is_access_label() const {
    return statement_ == "public" || statement_ == "protected" || statement_ == "private";
  }
  void close(std::size_t index) {
    if (blocks_.empty()) return;
    const Block block = blocks_.back();
    blocks_.pop_back();
    statement_ = std::move(kept_.back());
    kept_.pop_back();
    if (block.scope == Scope::function) found_.push_back({block.first_line, index - block.first_line + 1});
  }

  std::vector<Block> blocks_;
  std::vector<std::string> kept_;  // the statement to go on with when a block closes
  std::string statement_;
  std::size_t statement_line_ = 0;
  std::vector<FunctionSize> found_;
};

bool is_preprocessor(std::string_view line) { return line.starts_with('#'); }

struct Ban {
  std::regex pattern;
  const char* reason;
  std::string_view except;  // the files that may
};

const std::vector<Ban>& code_bans() {
  static const std::vector<Ban> kBans{
      {std::regex(R"(\b(secure_)?getenv\b)"), "only lib/config.cc reads the environment",
       "lib/config.cc tests/support/short_io.c"},
      {std::regex(R"(\b(mktemp|tmpnam|tempnam|tmpnam_r)\s*\()"),
       "predictable temporary name; use mkstemp or mkdtemp", ""},
      {std::regex(R"(\busing\s+namespace\s+(?!std::\w*literals))"), "no using namespace", ""},
      {std::regex(R"(\[=[\],])"), "no [=] capture", ""},
  };
  return kBans;
}

const std::vector<Ban>& text_bans() {
  static const std::vector<Ban> kBans{
      {std::regex(std::string(R"(\b(TO)") + "DO|FIX" + R"(ME|XX)" + R"(X)\b)"),
       "unfinished work has no place in the tree", ""},
      {std::regex(R"((^|[\s"'`=(:])/(home|root|Users|work)/)"), "path of one machine", ""},
      {std::regex(R"("/tmp/[^"X]*")"), "fixed name in a folder that everybody can write",
       "bindings/c/torchrun.cc"},
  };
  return kBans;
}

void search(const File& file, std::size_t i, const std::string& text, const std::vector<Ban>& bans,
            std::vector<std::string>& findings) {
  for (const Ban& ban : bans)
    if (ban.except.find(file.path) == std::string_view::npos && std::regex_search(text, ban.pattern))
      findings.push_back(finding(file, i, ban.reason));
}

bool has_licence(const File& file) {
  const auto end =
      file.lines.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, file.lines.size()));
  return std::any_of(file.lines.begin(), end, [](const std::string& line) {
    return line.find("SPDX-License-Identifier: Apache-2.0") != std::string::npos;
  });
}

}  // namespace

std::vector<FunctionSize> functions_of(const File& file) {
  BraceReader reader;
  const std::vector<std::string> code = code_of(file);
  for (std::size_t i = 0; i < code.size(); ++i)
    if (!is_preprocessor(code[i])) reader.read_line(i, code[i]);
  return reader.take();
}

std::vector<std::string> size_findings(const File& file) {
  std::vector<std::string> findings;
  if (!is_source(file)) return findings;
  const std::size_t limit = has_suffix(file.path, ".h") ? kHeaderLines : kSourceLines;
  if (file.lines.size() > limit)
    findings.push_back(
        finding(file, file.lines.size() - 1, "file has more than " + std::to_string(limit) + " lines"));
  const std::size_t function_limit = top_folder(file.path) == "tests" ? kTestBodyLines : kFunctionLines;
  for (const FunctionSize& function : functions_of(file))
    if (function.lines > function_limit)
      findings.push_back(finding(file, function.line_index,
                                 "function of " + std::to_string(function.lines) + " lines, more than " +
                                     std::to_string(function_limit)));
  return findings;
}

std::vector<std::string> word_findings(const File& file) {
  std::vector<std::string> findings;
  if (file.path == "LICENSE" || file.path.starts_with("tests/policy/")) return findings;
  const std::vector<std::string> code = is_source(file) ? code_of(file) : std::vector<std::string>();
  for (std::size_t i = 0; i < code.size(); ++i) search(file, i, code[i], code_bans(), findings);
  for (std::size_t i = 0; i < file.lines.size(); ++i) search(file, i, file.lines[i], text_bans(), findings);
  if (is_source(file) && !has_licence(file)) findings.push_back(finding(file, 0, "no SPDX licence line"));
  return findings;
}

std::vector<std::string> own_header_findings(const File& file, const std::vector<File>& tree) {
  if (!has_suffix(file.path, ".cc")) return {};
  const std::string own = file.path.substr(0, file.path.size() - 3) + ".h";
  const bool exists =
      std::any_of(tree.begin(), tree.end(), [&](const File& other) { return other.path == own; });
  const auto first = std::find_if(file.lines.begin(), file.lines.end(),
                                  [](const std::string& line) { return line.starts_with("#include"); });
  if (!exists || (first != file.lines.end() && *first == "#include \"" + own + "\"")) return {};
  return {finding(file, 0, "its first include must be \"" + own + "\"")};
}

}  // namespace rondel::policy
