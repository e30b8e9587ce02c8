// SPDX-License-Identifier: Apache-2.0
#include "tests/system/rondelrun_support.h"

namespace rondel::test {

const std::string kHelper = RONDELRUN_HELPER_PATH;
const std::string kHelperWord = "'" + kHelper + "'";

}  // namespace rondel::test
