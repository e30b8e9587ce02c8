#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs where the kernel or a container gives less than usual: each goes the next-best way, with the right sums, and says
# so only to those who miss something. usage: narrow_hosts.sh RONDELRUN RONDEL_BENCH LIBRARY FORBIDDING CASE. Exit code
# 77: not possible here.
set -eu

rondelrun=$1 bench=$2 library=$3 forbidding=$4 case_name=$5
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
skip() { echo "skipped: $1"; exit 77; }
fail() { cat "$work/out"; echo "FAILED: $1"; exit 1; }
needs_root() {
  [ "$(id -u)" = 0 ] || skip "$1 needs root"
}

sums() { # [wrapper...] -- [option of rondelrun...]: two ranks sum vectors that go each way there is
  wrapper=
  while [ "$1" != -- ]; do wrapper="$wrapper $1"; shift; done
  shift
  for memory in ${memories:-arena plain}; do
    # shellcheck disable=SC2086 # words
    $wrapper timeout 60 "$rondelrun" -np 2 "$@" "$bench" allreduce -b 4 -e 4M -f 32 -n 3 --memory "$memory" \
      >"$work/out" 2>&1 || return 1
    grep -q 'Out of bounds values : 0 OK' "$work/out" || fail "no result in $memory memory"
  done
}
expect_over() { # TRANSPORT
  grep -q "ranks 2 transport $1\$" "$work/out" || fail "the transport must be $1"
}
expect_silence() { # the ranks say nothing but their results
  if grep -v '<stdout>: ' "$work/out"; then fail "somebody is frightened without need"; fi
}
expect() { # WORDS: somebody says so
  grep -q -- "$1" "$work/out" || fail "nobody says: $1"
}

case $case_name in
  little-shm) # Rondel's memory has no name, so what /dev/shm has room for does not matter
    needs_root "a small /dev/shm"
    unshare -m true 2>/dev/null || skip "the kernel or container forbids mount namespaces"
    cat >"$work/small" <<'END'
mount -t tmpfs -o size=64k tmpfs /dev/shm && head -c "$1" /dev/zero >/dev/shm/others && shift && exec "$@"
END
    for others in 0 64k; do
      sums unshare -m sh "$work/small" $others -- || fail "the ranks failed"
      expect_over shm
      expect_silence
    done
    # The launcher's way of handing over the secret where there are no memfds either.
    memories=plain
    sums unshare -m sh "$work/small" 64k "$forbidding" memfd_create EPERM -- || fail "the ranks failed"
    expect_over tcp
    expect_silence
    ;;
  no-memfd) # no memory can be shared
    for error in EPERM ENOSYS; do
      "$forbidding" memfd_create $error "$rondelrun" --check-build >"$work/out" 2>&1 || fail "--check-build failed"
      expect '^shm  *not usable here: memfd_create: .*seccomp'
      expect '^tcp  *usable'
      memories=arena
      sums "$forbidding" memfd_create $error -- || fail "the ranks failed"
      expect_over tcp
      expect 'warning: rondel_alloc gives ordinary memory, since none can be shared: memfd_create'
      memories=plain
      sums "$forbidding" memfd_create $error -- || fail "the ranks failed"
      expect_over tcp
      expect_silence # it is as good as ever
      # shellcheck disable=SC2016 # the ranks expand it
      "$forbidding" memfd_create $error "$rondelrun" -np 2 sh -c '"$@" && "$@"' - "$bench" allreduce -b 4 -e 4 -n 3 \
        --memory plain >"$work/out" 2>&1 || fail "a second program of a rank does not get the secret"
      if sums "$forbidding" memfd_create $error -- --transport shm; then fail "shared memory is there after all"; fi
      expect 'shm: rank 0 on .*: memfd_create: .*seccomp'
    done
    ;;
  no-pull) # what is not mapped is copied
    for error in EPERM ENOSYS; do
      sums "$forbidding" process_vm_readv $error -- || fail "the ranks failed"
      expect_over shm
      expect_silence
    done
    ;;
  no-locks) # shared memory needs no locked pages; verbs, which does, is not asked for
    needs_root "becoming a user without privileges"
    command -v setpriv >/dev/null || skip "needs setpriv (Debian package util-linux)"
    chmod 755 "$work" # the tree may be out of the other user's reach
    cp "$rondelrun" "$bench" "$work"
    cp "$library" "$work/librondel.so.0"
    rondelrun=$work/rondelrun bench=$work/rondel-bench
    export LD_LIBRARY_PATH="$work"
    for kilobytes in 0 64; do
      sums prlimit "--memlock=$((kilobytes * 1024)):$((kilobytes * 1024))" \
        setpriv --reuid 54321 --clear-groups --bounding-set -all --inh-caps -all -- || fail "the ranks failed"
      expect_over shm
      expect_silence
    done
    ;;
  *) echo "no case $case_name"; exit 2 ;;
esac
echo "$case_name: ok"
