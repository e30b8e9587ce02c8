#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs that other launchers start, where these are installed. usage: foreign_launchers.sh RONDEL_BENCH. Exit code 77:
# none is.
set -uo pipefail

bench=$1 tried=0 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_RUNTIME_DIR=$folder OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

check() { # LABEL EXIT_STATUS TEXT COMMAND...: it ends so (failed: with any but 0), and says this
  local label=$1 wanted=$2 text=$3
  shift 3
  timeout -k 5 60 "$@" >"$folder/out" 2>&1
  local status=$?
  [ "$status" = 0 ] || [ "$wanted" != failed ] || status=failed
  if [ "$status" = "$wanted" ] && grep -q -- "$text" "$folder/out"; then
    echo "$label: as it should be"
  else
    echo "$label: ended with $status (wanted $wanted), or never said \"$text\":"
    cat "$folder/out"
    failed=1
  fi
  tried=1
}

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
[ "$tried" = 1 ] || exit 77
exit "$failed"
