#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whole jobs over an RDMA device: they train as over TCP, end in words, and survive a bad network.
# usage: verbs_jobs.sh RONDELRUN RONDEL_BENCH TRAIN_DIGITS DIGITS. Exit code 77: no device here.
set -uo pipefail

rondelrun=$1 bench=$2 train=$3 digits=$4 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$rondelrun" --check-build >"$folder/build"
grep '^verbs .*usable$' "$folder/build" >/dev/null || { grep '^verbs' "$folder/build"; exit 77; }

say() { printf '%s\n' "$*"; }
fail() { say "FAILED: $*"; failed=1; }
run() { # LIMIT_S COMMAND...: its output in $folder/out, its status returned
  timeout -k 5 "$@" >"$folder/out" 2>&1
}

trains_as_over_tcp() {
  local over
  for over in tcp verbs; do
    run 120 "$rondelrun" -np 2 --transport "$over" "$train" --data "$digits" ||
      { fail "training over $over ended with $?"; cat "$folder/out"; return; }
    grep -o 'rank [0-9]* parameters [0-9a-f]*' "$folder/out" >"$folder/parameters-$over"
  done
  [[ -s $folder/parameters-tcp ]] || fail "training printed no parameters"
  cmp -s "$folder"/parameters-{tcp,verbs} ||
    { fail "parameters over tcp and verbs differ"; cat "$folder"/parameters-*; }
  say "trained over tcp and verbs: $(head -n 1 "$folder/parameters-verbs")"
}

every_collective_is_right() {
  local collective
  for collective in allreduce reduce_scatter allgather broadcast reduce gather scatter alltoall sendrecv pingpong; do
    run 120 "$rondelrun" -np 3 --transport verbs "$bench" "$collective" -b 4 -e 300000 -f 37 -n 2 -w 1 -c 2 ||
      { fail "$collective over verbs ended with $?"; cat "$folder/out"; }
  done
  say "every collective was right among 3 ranks"
}

several_queue_pairs_change_no_result() {
  local pairs
  # The last: 1 on rank 0, 4 on rank 1, 7 on rank 2; each link has the smaller number of its two ends.
  # shellcheck disable=SC2016 # the ranks expand it
  for pairs in 2 4 '$((1 + 3 * RANK))'; do
    run 120 "$rondelrun" -np 3 --transport verbs sh -c "RONDEL_VERBS_QPS=$pairs"' exec "$@"' - \
      "$bench" allreduce -b 4 -e 300000 -f 37 -n 2 -w 1 -c 2 ||
      { fail "with $pairs queue pairs the job ended with $?"; cat "$folder/out"; }
  done
  say "2 and 4 queue pairs, and different numbers on three ranks, changed no result"
}

a_killed_rank_is_named() {
  local started=$SECONDS
  # Rank 1 kills itself in the middle; the launcher's own stop would hide what rank 0 says, hence the grace.
  # shellcheck disable=SC2016 # the ranks expand it
  run 60 "$rondelrun" -np 2 --kill-grace 20 --transport verbs sh -c \
    '[ "$RANK" = 1 ] && { (sleep 3; kill -9 $$) & }; exec "$@"' - "$bench" allreduce -b 1M -e 1M -n 100000 -c 0
  local status=$?
  ((status == 137)) || { fail "the job ended with $status, not 137"; cat "$folder/out"; }
  grep -q 'rank 1' "$folder/out" || { fail "nobody names rank 1"; cat "$folder/out"; }
  ((SECONDS - started < 40)) || fail "the end took $((SECONDS - started)) s"
  say "a killed rank ended the job in $((SECONDS - started)) s"
}

# The rest changes the network, so it needs the guest's own.
in_guest() { [[ -d /sys/class/infiniband/rxe0 && -d /run/rdma-vm ]]; }

loss_and_delay_change_nothing() {
  tc qdisc add dev rdma0 root netem loss 1% delay 1ms && tc qdisc add dev rdma1 root netem loss 1% delay 1ms ||
    { fail "no netem in the guest"; return; }
  # shellcheck disable=SC2016
  run 200 "$rondelrun" -np 2 --transport verbs sh -c 'RONDEL_VERBS_DEVICE=rxe$RANK exec "$@"' - \
    "$bench" allreduce -b 4 -e 1M -f 8 -n 3 -w 1 -c 2 || { fail "under loss the job ended with $?"; cat "$folder/out"; }
  tc qdisc del dev rdma0 root
  tc qdisc del dev rdma1 root
  say "1 % loss and 1 ms of delay between two devices changed no result"
}

a_link_that_goes_down_is_told() {
  local started=$SECONDS
  # shellcheck disable=SC2016
  RONDEL_SILENCE_TIMEOUT_S=4 timeout -k 5 100 "$rondelrun" -np 2 --transport verbs \
    sh -c 'RONDEL_VERBS_DEVICE=rxe$RANK exec "$@"' - "$bench" allreduce -b 256K -e 256K -n 100000 -c 0 \
    >"$folder/out" 2>&1 &
  sleep 8
  ip link set rdma1 down
  wait $!
  local status=$?
  ip link set rdma1 up
  ((status != 0 && status != 124 && status != 137)) ||
    { fail "with its link down the job ended with $status"; cat "$folder/out"; }
  grep -q 'port rxe[01]:1 of rank [01].* is down\|retries exceeded' "$folder/out" ||
    { fail "nobody tells of the link"; cat "$folder/out"; }
  say "a link that went down ended the job after $((SECONDS - started)) s"
}

# Each waits for the one before it, and small works are done before they have arrived: who hears of a broken link is not who
# waits for it.
a_cut_among_three_is_told() {
  local started=$SECONDS
  # shellcheck disable=SC2016
  RONDEL_SILENCE_TIMEOUT_S=4 timeout -k 5 60 "$rondelrun" -np 3 --transport verbs \
    sh -c 'RONDEL_VERBS_DEVICE=rxe$((RANK % 2)) exec "$@"' - "$bench" sendrecv -b 64 -e 64 -n 1000000 -c 0 \
    >"$folder/out" 2>&1 &
  sleep 5
  tc qdisc add dev rdma0 root netem loss 100%
  tc qdisc add dev rdma1 root netem loss 100%
  wait $!
  local status=$?
  tc qdisc del dev rdma0 root
  tc qdisc del dev rdma1 root
  ((status != 0 && status != 124 && status != 137)) ||
    { fail "with its network cut a job of three ended with $status"; cat "$folder/out"; }
  grep -q 'lost the connection to rank [012]' "$folder/out" || { fail "nobody tells of the cut"; cat "$folder/out"; }
  say "a network that was cut ended a job of three after $((SECONDS - started)) s"
}

trains_as_over_tcp
every_collective_is_right
several_queue_pairs_change_no_result
a_killed_rank_is_named
if in_guest; then
  loss_and_delay_change_nothing
  a_link_that_goes_down_is_told
  a_cut_among_three_is_told
else
  say "skipped: loss, delay and a link that goes down need the guest's own network"
fi
exit "$failed"
