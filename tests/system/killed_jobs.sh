#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# F02: all ranks of a job are killed, or launcher and agent with them, and the next job starts at once, twenty times:
# nothing is left that has a name or takes memory, and no start is held up by what was there before. In namespaces of its
# own, so that nobody else's are seen. usage: killed_jobs.sh RONDELRUN RONDEL_BENCH. Exit code 77: not possible here.
set -eu

rondelrun=$(realpath "$1") bench=$(realpath "$2")
skip() { echo "skipped: $1"; exit 77; }
if [ "${3-}" != inside ]; then
  [ "$(id -u)" = 0 ] || skip "namespaces need root"
  command -v ip >/dev/null || skip "needs ip (Debian package iproute2)"
  unshare -mnp --fork true 2>/dev/null || skip "the kernel or container forbids namespaces"
  work=$(mktemp -d)
  status=0
  unshare -mnp --fork --mount-proc "$0" "$1" "$2" inside "$work" || status=$?
  rm -rf --one-file-system "$work"
  exit $status
fi
work=$4
export TMPDIR="$work/tmp"
mkdir "$TMPDIR"
cd "$TMPDIR" # where a name without a folder would be
mount -t tmpfs -o size=64m tmpfs /dev/shm
ip link set lo up
fail() { cat "$work/out"; echo "FAILED: $1"; exit 1; }
await() { # WHAT COMMAND...: until the command succeeds, ten seconds at most
  what=$1 tries=0
  shift
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || fail "$what"
    timeout 0.02 tail -f /dev/null || true
  done
}

job_runs() { grep -q '(elements)' "$work/out"; }
only_this_script_runs() { # and what it runs to find that out
  for process in /proc/[0-9]*; do
    case $(cat "$process/comm" 2>/dev/null) in rondel*) return 1 ;; esac
  done
}
no_name_is_left() {
  [ -z "$(ls -A /dev/shm)" ] || { ls -lA /dev/shm; fail "something is left in /dev/shm"; }
  [ -z "$(ls -A "$TMPDIR")" ] || { ls -lA "$TMPDIR"; fail "something is left in the ranks' folder, or that for temporary files"; }
}

slowest=0
for round in $(seq 20); do
  rm -f "$work"/rank[0-3]
  : >"$work/out"
  began=$(date +%s%3N)
  # shellcheck disable=SC2016 # the ranks expand it
  "$rondelrun" -np 4 --transport shm sh -c 'echo $$ >"$0/rank$RANK" && exec "$@"' "$work" \
    "$bench" allreduce -b 64K -e 64K -n 1000000 -c 0 --memory "$([ $((round % 4)) -lt 2 ] && echo arena || echo plain)" \
    >>"$work/out" 2>&1 &
  launcher=$!
  await "the job of round $round does not start" job_runs
  took=$(($(date +%s%3N) - began))
  [ $took -le $slowest ] || slowest=$took
  agent=$(cat "/proc/$launcher/task/$launcher/children")
  [ $((round % 2)) = 0 ] || agent=
  # the launcher first: one that sees its agent go ends by itself
  # shellcheck disable=SC2046,SC2086 # words
  kill -9 ${agent:+"$launcher"} $(cat "$work"/rank[0-3]) $agent 2>/dev/null || true # one may follow another at once
  status=0
  wait "$launcher" 2>/dev/null || status=$?
  [ $status = 137 ] || fail "the job of round $round ended with $status"
  no_name_is_left
done
[ $slowest -le 5000 ] || fail "a start took $slowest ms"
await "a process is left" only_this_script_runs
if grep '@rondel' /proc/net/unix; then fail "an abstract socket is left"; fi
no_name_is_left
echo "killed_jobs: ok, the slowest start took $slowest ms"
