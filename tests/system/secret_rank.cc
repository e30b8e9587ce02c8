// SPDX-License-Identifier: Apache-2.0
// The program whose ranks the test of the job's secret watches: it notes the secret in a file, works, waits,
// and fails, so that there is something to log.
#include <fcntl.h>
#include <rondel.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "lib/auth.h"
#include "lib/config.h"
#include "lib/unique_fd.h"

namespace {

/// Writes what RONDEL_SECRET_FD holds, without taking it away from the library.
bool note_secret(const std::string& path) {
  const char* descriptor = rondel::environment_variable("RONDEL_SECRET_FD");
  if (descriptor == nullptr) return false;
  std::array<char, rondel::Secret::kBytes> bytes{};
  const rondel::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return ::pread(std::stoi(descriptor), bytes.data(), bytes.size(), 0) ==
             static_cast<ssize_t>(bytes.size()) &&
         ::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

/// secret_rank NOTE GATE: the file to note the secret in, with the rank's number behind it, and the fifo that
/// holds the ranks.
int main(int argc, char** argv) {
  const char* rank = rondel::environment_variable("RONDEL_RANK");
  if (argc < 3 || rank == nullptr || !note_secret(std::string(argv[1]) + rank)) return 2;
  rondel_comm_t comm = nullptr, copy = nullptr;
  float value = 1;
  if (rondel_init(nullptr, &comm) != RONDEL_OK || rondel_duplicate(comm, &copy) != RONDEL_OK) return 3;
  if (rondel_allreduce(copy, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM) != RONDEL_OK) return 4;
  std::puts("ready");
  std::fflush(stdout);
  char byte = 0;
  const rondel::UniqueFd gate(::open(argv[2], O_RDONLY | O_CLOEXEC));
  if (::read(gate.get(), &byte, 1) != 1) return 5;
  const rondel_dtype_t type = rondel_rank(comm) == 0 ? RONDEL_FLOAT32 : RONDEL_INT32;
  if (rondel_allreduce(copy, &value, &value, 1, type, RONDEL_SUM) != RONDEL_MISMATCH) return 6;
  rondel_error_t error = RONDEL_ERROR_INIT;
  rondel_last_error(copy, &error);
  std::fprintf(stderr, "%s\n", error.text);
  rondel_destroy(copy);
  return rondel_finalize(comm) == RONDEL_OK ? 0 : 7;
}
