#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs that other launchers start, where these are installed. usage: foreign_launchers.sh RONDEL_BENCH. Exit code 77:
# none is.
set -uo pipefail

bench=$1 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_RUNTIME_DIR=$folder OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

limit_s=60
source "${BASH_SOURCE[0]%/*}/job_endings.sh"

hydra=$(command -v mpiexec.hydra) || echo "skipped: no mpiexec.hydra (package mpich)"
if [ -n "$hydra" ]; then
  check "hydra, 4 ranks" 0 'allreduce ranks 4' "$hydra" -n 4 "$bench" allreduce -b 4 -e 64K -f 16 -n 3
  check "hydra, 1 rank" 0 'allreduce ranks 1' "$hydra" -n 1 "$bench" allreduce -b 4 -e 4 -n 3
  # Rank 1 never comes: the others are told in time.
  # shellcheck disable=SC2016 # the ranks expand it
  check "hydra, a rank that never comes" failed 'not all ranks came' env RONDEL_START_TIMEOUT_S=2 "$hydra" -n 2 \
    sh -c '[ "$PMI_RANK" = 0 ] && exec "$@"; sleep 8' - "$bench" allreduce -b 4 -e 4
fi
openmpi=$(command -v mpirun.openmpi) || echo "skipped: no mpirun.openmpi (package openmpi-bin)"
if [ -n "$openmpi" ]; then
  check "Open MPI, 4 ranks" 0 'allreduce ranks 4' "$openmpi" --oversubscribe -np 4 "$bench" allreduce -b 4 -e 64K -f 16 -n 3
fi
[ -n "$hydra$openmpi" ] || exit 77
exit "$failed"
