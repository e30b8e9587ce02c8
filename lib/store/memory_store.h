// SPDX-License-Identifier: Apache-2.0
// A Store for the threads of one process. Every Store made from one MemoryStoreData sees the same keys; any
// thread.
#pragma once

#include <memory>

#include "lib/store/store.h"

namespace rondel {

class MemoryStoreData;
std::shared_ptr<MemoryStoreData> make_memory_store_data();
std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryStoreData> data);

}  // namespace rondel
