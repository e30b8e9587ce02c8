/* SPDX-License-Identifier: Apache-2.0 */
/* rondel.h from plain C11: compiles without a warning, links, and bears numbers that are no enumerators. Also
 * compiled as an installed user would, with nothing but pkg-config's flags. */
#include <rondel.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "failed: %s\n", what);
  failures += 1;
}

int main(void) {
  rondel_options_t options = RONDEL_OPTIONS_INIT;
  rondel_error_t error = RONDEL_ERROR_INIT;
  rondel_store_t store = RONDEL_STORE_INIT;
  rondel_comm_t comm = NULL;
  float value = 2.5F;
  expect(store.struct_size == sizeof store, "RONDEL_STORE_INIT sets the size");
  expect(rondel_version() == RONDEL_VERSION, "header and library are of one version");
  expect(rondel_init(&options, &comm) == RONDEL_OK, "rondel_init");
  expect(rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM) == RONDEL_OK,
         "rondel_allreduce");
  expect(value == 2.5F, "the sum of one rank");

  expect(rondel_allreduce(comm, &value, &value, 1, (rondel_dtype_t)10, RONDEL_SUM) == RONDEL_INVALID_ARGUMENT,
         "element type 10");
  expect(rondel_allreduce(comm, &value, &value, 1, (rondel_dtype_t)-1, RONDEL_SUM) == RONDEL_INVALID_ARGUMENT,
         "element type -1");
  expect(rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT32, (rondel_op_t)8) == RONDEL_INVALID_ARGUMENT,
         "operator 8");
  expect(rondel_last_error(comm, &error) == RONDEL_OK, "rondel_last_error");
  expect(error.code == RONDEL_INVALID_ARGUMENT && strstr(error.cause, "operator 8") != NULL,
         "the text shows the value");
  expect(strcmp(rondel_status_string((rondel_status_t)99), "unknown code") == 0, "code 99");
  expect(strcmp(rondel_status_string((rondel_status_t)-1), "unknown code") == 0, "code -1");
  expect(rondel_finalize(comm) == RONDEL_OK, "rondel_finalize");
  return failures == 0 ? 0 : 1;
}
