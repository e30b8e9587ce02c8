// SPDX-License-Identifier: Apache-2.0
// What every Store must do, whatever it is made of; each store's test runs it. `open` gives another Store on
// the same keys, as another rank would have it.
#pragma once

#include <functional>
#include <memory>

#include "lib/store/store.h"

namespace rondel::test {

using OpenStore = std::function<std::unique_ptr<Store>()>;

void run_store_suite(const OpenStore& open);

Bytes bytes_of(std::string_view text);
std::string text_of(const Bytes& bytes);

}  // namespace rondel::test
