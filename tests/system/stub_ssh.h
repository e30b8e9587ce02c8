// SPDX-License-Identifier: Apache-2.0
// StubSsh: a script named ssh in a folder of its own, which records how it was called and then does what a
// test wants in place of logging in; by default it runs the command on this machine, in a fresh environment
// and after some noise. One thread.
#pragma once

#include <string>
#include <vector>

#include "tests/system/rondelrun_process.h"
#include "tests/system/rondelrun_support.h"

namespace rondel::test {

class StubSsh {
 public:
  /// `shell` takes the command as a login shell would, with `variables` ("NAME=value NAME=value", as a shell
  /// reads them) and its rank's mark as its whole environment.
  explicit StubSsh(const std::string& shell = "sh", const std::string& variables = "HOME=/var/empty");
  /// Runs `body` with "$host" and "$command" set.
  static StubSsh with_body(const std::string& body);

  /// `setup` as it finds this ssh, with ranks that meet on the loopback interface.
  LaunchSetup setup(LaunchSetup setup) const;
  /// The words of all calls, in the order of their arrival.
  std::vector<std::string> words() const;

 private:
  struct Body {
    std::string text;
  };
  explicit StubSsh(const Body& body);

  TemporaryFolder folder_;
};

}  // namespace rondel::test
