// SPDX-License-Identifier: Apache-2.0
#include "tests/system/stub_ssh.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/config.h"

namespace rondel::test {

StubSsh::StubSsh(const Body& body) {
  const std::string path = folder_.path() + "/ssh";
  std::ofstream(path) << "#!/bin/sh\n"
                      << "for word in \"$@\"; do printf '%s\\n' \"$word\"; done >>'" << folder_.path()
                      << "/words'\n"
                      << "while [ $# -gt 2 ]; do shift; done\nhost=$1\ncommand=$2\n"
                      << body.text << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

StubSsh::StubSsh(const std::string& shell, const std::string& variables)
    : StubSsh(Body{fmt::format("echo \"Welcome to $host\"; echo 'you have mail' >&2; printf 'no newline'\n"
                               "exec env -i PATH=/usr/bin:/bin RONDEL_TEST_MARK=\"$RONDEL_TEST_MARK\" {} "
                               "{} -c \"$command\"",
                               variables, shell)}) {}

StubSsh StubSsh::with_body(const std::string& body) { return StubSsh(Body{body}); }

LaunchSetup StubSsh::setup(LaunchSetup setup) const {
  setup.environment.push_back(fmt::format("PATH={}:{}", folder_.path(), environment_variable("PATH")));
  setup.arguments.insert(setup.arguments.begin(), {"--net", "lo"});
  return setup;
}

std::vector<std::string> StubSsh::words() const {
  std::istringstream lines(file_text(folder_.path() + "/words"));
  std::vector<std::string> words;
  for (std::string line; std::getline(lines, line);) words.push_back(line);
  return words;
}

}  // namespace rondel::test
