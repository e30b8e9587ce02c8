// SPDX-License-Identifier: Apache-2.0
// rondel.h from C++17: compiles without a warning, and its enumerators and sizes are what the ABI promises.
#include <rondel.h>

static_assert(sizeof(rondel_unique_id_t) == 128, "part of the ABI");
static_assert(sizeof(rondel_options_t) == 64, "grows only with care: struct_size tells");
static_assert(sizeof(rondel_store_t) == 32, "part of the ABI");
static_assert(sizeof(rondel_error_t) == 4000, "part of the ABI");
static_assert(RONDEL_INTERNAL == 12 && RONDEL_BOOL == 9 && RONDEL_BIT_XOR == 7, "part of the ABI");

int main() {
  rondel_options_t options = RONDEL_OPTIONS_INIT;
  rondel_comm_t comm = nullptr;
  if (rondel_init(&options, &comm) != RONDEL_OK) return 1;
  return rondel_finalize(comm) == RONDEL_OK ? 0 : 1;
}
