#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs that other launchers start, where these are installed. usage: foreign_launchers.sh RONDEL_BENCH [RONDELRUN].
# Exit code 77: none is.
set -uo pipefail

bench=$1 rondelrun=${2:-} failed=0
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
  # shellcheck disable=SC2016 # the ranks expand it
  check "hydra, a second program in one process" failed 'one program per process' "$hydra" -n 2 \
    sh -c '"$@" && "$@"' - "$bench" allreduce -b 4 -e 4 -n 3
fi
check "variables of PMI that an earlier job left" failed 'PMI_FD is 77.*unset PMI_FD' \
  env PMI_FD=77 PMI_RANK=0 PMI_SIZE=2 "$bench" allreduce -b 4 -e 4
check "variables of mpirun that an earlier job left" failed 'OMPI_COMM_WORLD_SIZE=4.*unset OMPI_COMM_WORLD_RANK' \
  env RONDEL_START_TIMEOUT_S=0.5 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 "$bench" allreduce -b 4 -e 4
openmpi=$(command -v mpirun.openmpi) || echo "skipped: no mpirun.openmpi (package openmpi-bin)"
if [ -n "$openmpi" ]; then
  check "Open MPI, 4 ranks" 0 'allreduce ranks 4' "$openmpi" --oversubscribe -np 4 "$bench" allreduce -b 4 -e 64K -f 16 -n 3
fi
# One launcher inside another: the inner one counts, and where rondelrun is the outer one it says that it is.
small=(allreduce -b 4 -e 4 -n 3)
nested() { # NAME LAUNCHER...
  local name=$1
  shift
  check "$name beside the variables of another job" 0 'allreduce ranks 3' env RANK=0 WORLD_SIZE=1 "$@" 3 "$bench" "${small[@]}"
  check "$name with MASTER_ADDR" 0 'allreduce ranks 3' env MASTER_ADDR=localhost MASTER_PORT=29000 "$@" 3 "$bench" "${small[@]}"
  [ -n "$rondelrun" ] || return
  check "rondelrun in a rank of $name" 0 'allreduce ranks 2' "$@" 1 "$rondelrun" -np 2 "$bench" "${small[@]}"
  check "$name in a rank of rondelrun" failed 'inside a rank of rondelrun' "$rondelrun" -np 1 "$@" 3 "$bench" "${small[@]}"
}
[ -z "$hydra" ] || nested hydra "$hydra" -n
[ -z "$openmpi" ] || nested mpirun "$openmpi" --oversubscribe -np
if [ -n "$hydra" ] && [ -n "$openmpi" ]; then
  check "mpirun in a rank of hydra" 0 'allreduce ranks 3' "$hydra" -n 1 "$openmpi" --oversubscribe -np 3 "$bench" "${small[@]}"
  check "hydra in a rank of mpirun" 0 'allreduce ranks 3' "$openmpi" -np 1 "$hydra" -n 3 "$bench" "${small[@]}"
fi
[ -n "$hydra$openmpi" ] || exit 77
exit "$failed"
