// SPDX-License-Identifier: Apache-2.0
// Each policy, tried on small samples: one that breaks it and one that keeps it.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/policy/docs.h"
#include "tests/policy/form.h"
#include "tests/policy/layers.h"
#include "tests/policy/tree.h"

namespace rondel::policy {

namespace {

std::size_t layer_count(std::string path, std::string_view text) {
  return layer_findings(make_file(std::move(path), text)).size();
}

std::size_t word_count(std::string path, std::string_view text) {
  return word_findings(
             make_file(std::move(path), "// SPDX-License-Identifier: Apache-2.0\n" + std::string(text)))
      .size();
}

std::string body_of(std::size_t lines) {
  std::string text = "namespace rondel {\n\nint f(int a,\n      int b) {\n";
  for (std::size_t i = 3; i < lines; ++i) text += "  if (a == b) { a += 1'000; }\n";
  return text + "}\n\n}  // namespace rondel\n";
}

}  // namespace

TEST_CASE("samples: includes against the arrows are found", "[samples]") {
  CHECK(layer_count("lib/a.cc", "#include \"transports/work.h\"\n") == 1);
  CHECK(layer_count("ring/a.cc", "#include \"transports/tcp/link.h\"\n") == 1);
  CHECK(layer_count("ring/a.cc", "#include \"transports/registry.h\"\n") == 1);
  CHECK(layer_count("fusion/a.cc", "#include \"transports/work.h\"\n") == 1);
  CHECK(layer_count("launcher/a.cc", "#include \"ring/request.h\"\n") == 1);
  CHECK(layer_count("launcher/options.cc", "#include \"transports/registry.h\"\n") == 1);
  CHECK(layer_count("transports/tcp/a.cc", "#include \"transports/loopback/hub.h\"\n") == 1);
  CHECK(layer_count("transports/tcp/a.cc", "#include \"transports/registry.h\"\n") == 1);
  CHECK(layer_count("transports/tcp/a.cc", "#include \"ring/request.h\"\n") == 1);
  CHECK(layer_count("transports/select.cc", "#include \"transports/tcp/link.h\"\n") == 1);
  CHECK(layer_count("bindings/c/a.cc", "#include \"launcher/options.h\"\n") == 1);
  CHECK(layer_count("bindings/c/a.cc", "#include \"transports/tcp/link.h\"\n") == 1);
  CHECK(layer_count("bindings/c/include/rondel.h", "#include \"lib/types.h\"\n") == 1);
  CHECK(layer_count("docs/examples/cpp/a.cc", "#include \"lib/types.h\"\n") == 1);
  CHECK(layer_count("ring/a.cc", "  #  include <tests/support/reference.h>\n") == 1);
  CHECK(layer_count("ring/a.cc", "#include <spdlog/spdlog.h>\n") == 1);
}

TEST_CASE("samples: includes along the arrows pass", "[samples]") {
  CHECK(layer_count("lib/a.cc", "#include \"lib/status.h\"\n#include <vector>\n#include <fmt/format.h>\n") ==
        0);
  CHECK(layer_count("ring/a.cc", "#include \"transports/select.h\"\n#include \"ring/request.h\"\n") == 0);
  CHECK(layer_count("transports/tcp/a.cc",
                    "#include \"transports/tcp/link.h\"\n#include \"transports/work.h\"\n") == 0);
  CHECK(layer_count("transports/registry.cc", "#include \"transports/tcp/transport.h\"\n") == 0);
  CHECK(layer_count("launcher/main.cc", "#include \"transports/registry.h\"\n") == 0);
  CHECK(layer_count("bindings/c/a.cc",
                    "#include \"transports/registry.h\"\n#include \"ring/communicator.h\"\n") == 0);
  CHECK(layer_count("tests/ring/a.cc", "#include \"bench/table.h\"\n#include <catch2/catch.hpp>\n") == 0);
}

TEST_CASE("samples: a backend named outside the registry is found", "[samples]") {
  const std::vector<std::string> backends{"tcp"};
  const auto count = [&](std::string path, std::string_view text) {
    return backend_name_findings(make_file(std::move(path), text), backends).size();
  };
  CHECK(count("ring/a.cc", "if (name == \"tcp\") {\n") == 1);
  CHECK(count("bindings/c/a.cc", "rondel::tcp::Transport t;\n") == 1);
  CHECK(count("bindings/c/a.cc", "auto t = tcp::make_transport();\n") == 1);
  CHECK(count("lib/a.cc", "boost::asio::ip::tcp::socket s; // tcp://host:port\n") == 0);
  CHECK(count("bindings/c/include/rondel.h", "/* for example\n * \"tcp\" */\n") == 0);
  CHECK(count("transports/registry.cc", "tcp::make_transport();\n") == 0);
  CHECK(count("transports/tcp/transport.cc", "return \"tcp\";\n") == 0);
}

TEST_CASE("samples: long files and functions are found", "[samples]") {
  const auto findings = [](const char* path, const std::string& text) {
    return size_findings(make_file(path, text)).size();
  };
  CHECK(findings("lib/a.h", std::string(kHeaderLines + 1, '\n')) == 1);
  CHECK(findings("lib/a.h", std::string(kHeaderLines, '\n')) == 0);
  CHECK(findings("lib/a.cc", std::string(kSourceLines + 1, '\n')) == 1);
  CHECK(findings("lib/a.cc", std::string(kSourceLines, '\n')) == 0);
  CHECK(findings("lib/a.cc", body_of(kFunctionLines + 1)) == 1);
  CHECK(findings("lib/a.cc", body_of(kFunctionLines)) == 0);
  CHECK(findings("tests/lib/a.cc", body_of(kFunctionLines + 1)) == 0);
  CHECK(findings("tests/lib/a.cc", body_of(kTestBodyLines + 1)) == 1);
}

TEST_CASE("samples: functions are measured from name to brace", "[samples]") {
  const File file =
      make_file("lib/a.cc",
                "namespace {\nclass A {\n public:\n  A(int x)\n      : a_{x}, b_(x) {\n    go();\n  }\n"
                "  int a_ = 0;\n};\nconst int kTable[] = {\n    1,\n    2};\n}\n"
                "void f() {\n  const auto g = [](char c) {\n    return c == '{';\n  };\n  s = \"}\";\n}\n");
  const std::vector<FunctionSize> functions = functions_of(file);
  REQUIRE(functions.size() == 2);
  CHECK(functions[0].line_index == 3);
  CHECK(functions[0].lines == 4);
  CHECK(functions[1].line_index == 13);
  CHECK(functions[1].lines == 6);
}

TEST_CASE("samples: comments and declarations are no functions", "[samples]") {
  std::string text = "/* f(x) {\n";
  for (std::size_t i = 0; i < kFunctionLines; ++i) text += " * { (\n";
  text += " */\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
  for (std::size_t i = 0; i < kFunctionLines; ++i) text += "int f(int a);\n";
  CHECK(size_findings(make_file("lib/a.h", text + "#ifdef __cplusplus\n}\n#endif\n")).empty());
}

TEST_CASE("samples: banned words are found", "[samples]") {
  CHECK(word_count("ring/a.cc", "const char* home = std::getenv(\"HOME\");\n") == 1);
  CHECK(word_count("ring/a.cc", "auto e = secure_getenv(\"X\");\n") == 1);
  CHECK(word_count("lib/config.cc", "const char* home = std::getenv(\"HOME\");\n") == 0);
  CHECK(word_count("ring/a.cc", "// getenv is for config\nint getenvelope = 0;\n") == 0);
  CHECK(word_count("ring/a.cc", "mktemp(name);\n") == 1);
  CHECK(word_count("ring/a.cc", "auto p = tmpnam(nullptr);\n") == 1);
  CHECK(word_count("ring/a.cc", "mkdtemp(name); mkstemp(name);\n") == 0);
  CHECK(word_count("tests/ring/a.cc", "open(\"/tmp/rondel.sock\");\n") == 1);
  CHECK(word_count("tests/ring/a.cc", "char t[] = \"/tmp/rondel-XXXXXX\";\n") == 0);
  CHECK(word_count("ring/a.cc", std::string("// TO") + "DO: later\n") == 1);
  CHECK(word_count("docs/a.md", std::string("FIX") + "ME\n") == 1);
  CHECK(word_count("docs/a.md", "run /home/me/rondel/check\n") == 1);
  CHECK(word_count("docs/a.md", "the /proc/self/work/ folder\n") == 0);
  CHECK(word_count("ring/a.cc", "using namespace std;\n") == 1);
  CHECK(word_count("ring/a.cc", "using namespace std::chrono_literals;\n") == 0);
  CHECK(word_count("ring/a.cc", "auto f = [=] { return 1; };\n") == 1);
  CHECK(word_findings(make_file("lib/a.cc", "int a;\n")).size() == 1);  // no licence
}

TEST_CASE("samples: a source that includes its own header late is found", "[samples]") {
  const std::vector<File> tree{make_file("lib/a.h", "")};
  CHECK(
      own_header_findings(make_file("lib/a.cc", "#include <vector>\n#include \"lib/a.h\"\n"), tree).size() ==
      1);
  CHECK(own_header_findings(make_file("lib/a.cc", "// x\n#include \"lib/a.h\"\n#include <vector>\n"), tree)
            .empty());
  CHECK(own_header_findings(make_file("lib/b.cc", "#include <vector>\n"), tree).empty());
}

TEST_CASE("samples: dead links are found", "[samples]") {
  const auto count = [](std::string_view text) {
    return link_findings(make_file("docs/a.md", text), RONDEL_SOURCE_ROOT).size();
  };
  CHECK(count("see [this](no-such-file.md)\n") == 1);
  CHECK(count("see [this](../LICENSE), [that](../lib/status.h#part), [web](https://example.org/x)\n") == 0);
}

TEST_CASE("samples: settings that do not exist are found", "[samples]") {
  const std::vector<std::string_view> options{"RONDEL_LOG"};
  const File code = make_file("ring/a.cc", "#define RONDEL_TRY 1\n");
  const auto count = [&](std::string path, std::string_view text) {
    return option_findings({code, make_file(std::move(path), text)}, options).size();
  };
  CHECK(count("README.md", "RONDEL_LOG=info, RONDEL_TRY, RONDEL_* and RONDEL_\n") == 0);
  CHECK(count("README.md", "RONDEL_LOGS=info\n") == 1);
  CHECK(count("ring/b.cc", "hint = \"raise RONDEL_TIMEOUTS\";\n") == 1);
  CHECK(count("ring/b.cc", "// see RONDEL_NOTHING\n") == 1);
  CHECK(count("tests/ring/b.cc", "set(\"RONDEL_NOTHING\");\n") == 0);
}

TEST_CASE("samples: a stranger at the top level is found", "[samples]") {
  CHECK(top_level_findings(std::string(RONDEL_SOURCE_ROOT) + "/lib").size() > 1);
}

}  // namespace rondel::policy
