#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Eight ranks, on however few cores, for a while: every collective that goes through shared memory, all results checked.
# A stall of 20 s ends it. usage: soak.sh RONDELRUN RONDEL_BENCH SECONDS
set -eu

rondelrun=$1
bench=$2
end=$(($(date +%s) + $3))
export RONDEL_TIMEOUT_S=20
jobs=0
while [ "$(date +%s)" -lt "$end" ]; do
  for collective in allreduce reduce_scatter allgather broadcast alltoall; do
    for memory in arena plain; do
      "$rondelrun" -np 8 "$bench" "$collective" -b 4 -e 4M -f 8 -n 100 -c 3 --memory "$memory" || {
        echo "FAILED: $collective, $memory memory, after $jobs jobs"
        exit 1
      }
      jobs=$((jobs + 1))
    done
  done
done
echo "soak: ok, $jobs jobs"
