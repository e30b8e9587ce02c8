#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks of one machine and one network that may not share memory, as in containers of different users: each says that it
# is root, and the kernel knows better. usage: containers.sh RONDELRUN RONDEL_BENCH LIBRARY. Exit code 77: not possible
# here.
set -eu

rondelrun=$1 bench=$2 library=$3
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
skip() { echo "skipped: $1"; exit 77; }
fail() { cat "$work/out"; echo "FAILED: $1"; exit 1; }

[ "$(id -u)" = 0 ] || skip "becoming another user needs root"
command -v setpriv >/dev/null || skip "needs setpriv (Debian package util-linux)"
another='setpriv --reuid 54321 --clear-groups unshare -U --map-root-user'
$another true 2>/dev/null || skip "the kernel or container forbids user namespaces"

chmod 755 "$work" # the tree may be out of the other user's reach
cp "$bench" "$work/rondel-bench"
cp "$library" "$work/librondel.so.0"
cat >"$work/rank" <<END
case "\$contained \$RANK" in
  "nobody 0") exec setpriv --reuid 65534 --clear-groups "$work/rondel-bench" "\$@" ;;
  "nobody 1") exec unshare -U "$work/rondel-bench" "\$@" ;;
esac
case " \$contained " in *" \$RANK "*) exec $another "$work/rondel-bench" "\$@" ;; esac
exec "$work/rondel-bench" "\$@"
END
run_ranks() { # COUNT RANKS_IN_A_CONTAINER [option of rondelrun...]
  count=$1 contained=$2
  shift 2
  export contained
  timeout 60 "$rondelrun" -np "$count" -x contained -x "LD_LIBRARY_PATH=$work" "$@" \
    sh "$work/rank" allreduce -b 4 -e 64K -f 64 -n 3 >"$work/out" 2>&1
}
expect() { # TRANSPORT COUNT RANKS_IN_A_CONTAINER
  run_ranks "$2" "$3" || fail "the ranks failed"
  grep -q "ranks $2 transport $1\$" "$work/out" || fail "with '$3' of $2 ranks contained the transport must be $1"
  grep -q 'Out of bounds values : 0 OK' "$work/out" || fail "no result"
}

expect shm 2 ''
expect shm 2 '0 1'
expect tcp 2 '1'
grep -q 'warning: transport shm: rank [01] .* does not reach rank [01] .* another user' "$work/out" || fail "no reason is told"
[ "$(grep -c 'does not reach' "$work/out")" = 1 ] || fail "the reason is told more than once"
expect tcp 2 '0'
expect shm+tcp 4 '1 3'
expect shm+tcp 3 '0'

expect tcp 2 nobody # rank 1 does not know any user, and takes nobody's for its own; rank 0 knows better
if run_ranks 2 '1' --transport shm; then fail "shared memory was used although it can not be"; fi
grep -q 'shm: it joins processes of one user .*, as far as they reach one another, only, which rank 0 on .* and rank 1 on .* are not' "$work/out" || fail "the refusal does not name the ranks"
echo "ok"
