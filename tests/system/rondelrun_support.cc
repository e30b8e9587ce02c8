// SPDX-License-Identifier: Apache-2.0
#include "tests/system/rondelrun_support.h"

#include <fstream>
#include <iterator>

namespace rondel::test {

const std::string kHelper = RONDELRUN_HELPER_PATH;
const std::string kHelperWord = "'" + kHelper + "'";

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace rondel::test
