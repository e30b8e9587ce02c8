// SPDX-License-Identifier: Apache-2.0
#include "tests/policy/tree.h"

#include <array>
#include <cctype>
#include <fstream>
#include <iterator>

namespace rondel::policy {

namespace fs = std::filesystem;

namespace {

constexpr std::array kFolders{".ci",      "bench", "bindings", "docs",  "fusion",
                              "launcher", "lib",   "ring",     "tests", "transports"};

bool is_text(std::string_view text) { return text.find('\0') == std::string_view::npos; }

void read_file(const fs::path& root, const fs::path& path, std::vector<File>& files) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  if (is_text(text)) files.push_back(make_file(fs::relative(path, root).generic_string(), text));
}

// Goes through a source line by line; remembers whether it is inside a block comment.
class CodeReader {
 public:
  explicit CodeReader(Strings strings) : strings_(strings) {}

  std::string read(std::string_view line) {
    std::string code;
    quote_ = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string_view two = line.substr(i, 2);
      if (in_comment_) {
        if (two == "*/") ++i, in_comment_ = false;
      } else if (quote_ != 0) {
        i += read_quoted(line.substr(i, 2), code);
      } else if (two == "//") {
        break;
      } else if (two == "/*") {
        ++i, in_comment_ = true;
      } else {
        const bool in_number = i > 0 && std::isalnum(static_cast<unsigned char>(line[i - 1])) != 0;
        if (line[i] == '"' || (line[i] == '\'' && !in_number)) quote_ = line[i];
        code += line[i];
      }
    }
    return code;
  }

 private:
  // Returns how many further characters it took: one behind a backslash.
  std::size_t read_quoted(std::string_view two, std::string& code) {
    const bool escape = two[0] == '\\' && two.size() == 2;
    if (two[0] == quote_) quote_ = 0;
    if (strings_ == Strings::keep || quote_ == 0) {
      code += two.substr(0, escape ? 2 : 1);
    } else {
      code += ' ';
    }
    return escape ? 1 : 0;
  }

  const Strings strings_;
  bool in_comment_ = false;
  char quote_ = 0;
};

}  // namespace

File make_file(std::string path, std::string_view text) {
  File file{std::move(path), {}};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    file.lines.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return file;
}

std::vector<File> read_tree(const fs::path& root) {
  std::vector<File> files;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_regular_file() && entry.path().filename() != ".git") read_file(root, entry.path(), files);
  for (const char* folder : kFolders) {
    if (!fs::is_directory(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file()) read_file(root, entry.path(), files);
  }
  return files;
}

std::string finding(const File& file, std::size_t line_index, std::string_view what) {
  return file.path + ":" + std::to_string(line_index + 1) + ": " + std::string(what);
}

bool has_suffix(std::string_view path, std::string_view suffix) { return path.ends_with(suffix); }

bool is_source(const File& file) {
  return has_suffix(file.path, ".cc") || has_suffix(file.path, ".h") || has_suffix(file.path, ".c");
}

std::string_view top_folder(std::string_view path) {
  const std::size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::vector<std::string> code_of(const File& file, Strings strings) {
  std::vector<std::string> code;
  CodeReader reader(strings);
  for (const std::string& line : file.lines) code.push_back(reader.read(line));
  return code;
}

}  // namespace rondel::policy
