#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What --check-build and jobs say of RDMA devices that can not be used, and that jobs which did not ask for them go another
# way without a word. usage: verbs_reports.sh RONDELRUN RONDEL_BENCH STUB_LIBRARY. Exit code 77: not possible here.
set -eu

rondelrun=$1 bench=$2 stub=$(realpath "$3")
skip() { echo "skipped: $1"; exit 77; }
if [ "${4-}" != inside ]; then
  [ "$(id -u)" = 0 ] || skip "a /sys/class of its own needs root"
  unshare -m true 2>/dev/null || skip "the kernel or container forbids mount namespaces"
  work=$(mktemp -d)
  status=0
  unshare -m "$0" "$1" "$2" "$3" inside "$work" || status=$?
  rm -rf --one-file-system "$work"
  exit $status
fi
work=$5
devices=/sys/class/infiniband
fail() { cat "$work/out"; echo "FAILED: $1"; exit 1; }

# Devices are names in a folder that only these processes see; network interfaces stay.
mkdir "$work/lib" "$work/net"
ln -s "$stub" "$work/lib/libibverbs.so.1"
export LD_LIBRARY_PATH="$work/lib"
mount --bind /sys/class/net "$work/net"
mount -t tmpfs tmpfs /sys/class
mkdir /sys/class/net $devices
mount --bind "$work/net" /sys/class/net

run() { # KILOBYTES COMMAND...: with so much memory that can be locked; enough: with as much as here
  most=$1
  shift
  [ "$most" = enough ] || set -- prlimit "--memlock=$((most * 1024)):$((most * 1024))" "$@"
  timeout 60 "$@" >"$work/out" 2>&1
}
expect() { # WORDS: somebody says so
  grep -q -- "$1" "$work/out" || fail "nobody says: $1"
}

reports() { # KILOBYTES DEVICE WORDS: the device is there and can not be used, for this reason
  locked=$1 device=$2 words=$3
  [ -z "$device" ] || mkdir "$devices/$device"
  run "$locked" "$rondelrun" --check-build || fail "--check-build ended with $?"
  expect "^verbs  *not usable here: $words"
  expect "^shm+verbs  *not usable here: $words"
  run "$locked" "$rondelrun" -np 2 "$bench" allreduce -b 4 -e 4K -f 32 -n 3 || fail "a job that does not ask for verbs"
  expect 'ranks 2 transport shm$'
  expect 'Out of bounds values : 0 OK'
  if grep -v '<stdout>: ' "$work/out"; then fail "somebody is frightened without need"; fi
  if run "$locked" "$rondelrun" -np 2 --transport verbs "$bench" allreduce -b 4 -e 4 -n 1; then
    fail "verbs was used"
  fi
  expect "verbs: rank 0 on .*: $words"
  [ -z "$device" ] || rmdir "$devices/$device"
  echo "${device:-no device}, $locked KiB to lock: as it should be"
}

lock_words='registering .* bytes with well0: out of memory that can be locked; the limit (ulimit -l) is'
reports enough '' 'this host has no RDMA device; .*load its driver'
reports enough down0 'no RDMA port can be used: down0:1: its state is down, not active; bring one up'
reports enough bare0 'no RDMA port can be used: bare0:1: it has no address (GID); .*'
reports 64 well0 "$lock_words 64 KiB, this needs .* KiB more; raise it: ulimit -l unlimited"
reports 0 well0 "$lock_words 0 KiB, this needs .* KiB more; raise it: ulimit -l unlimited"
for device in well0 first0; do
  mkdir "$devices/$device"
  run enough "$rondelrun" --check-build || fail "--check-build ended with $?"
  expect '^verbs  *usable$'
  rmdir "$devices/$device"
done
echo "verbs_reports: ok"
