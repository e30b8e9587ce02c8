#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The pods of a Kubernetes Job in Indexed mode, as network namespaces: each with a host name JOB-INDEX, an /etc/hosts that
# knows its own full name, and no more in its environment than a manifest sets. Pod 0's name is not known to the others at
# first, as that of a headless service is not. usage: indexed_job.sh RONDEL_BENCH. Exit code 77: not possible here.
set -eu

bench=$1
domain=train.default.svc.cluster.local
work=$(mktemp -d)
id=$(basename "$work" | tr -dc 'a-zA-Z0-9' | tail -c 5)
bridge="kb$id"
pods='0 1 2'

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "needs ip (Debian package iproute2)"
unshare -n true 2>/dev/null || skip "the kernel or container forbids network namespaces"

clean_up() {
  for pod in $pods; do ip netns del "kp$id$pod" 2>/dev/null || true; done
  ip link del "$bridge" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT

ip link add "$bridge" type bridge || skip "no bridge devices here"
ip link set "$bridge" up
for pod in $pods; do
  name="kp$id$pod"
  ip netns add "$name"
  ip link add "kv$id$pod" type veth peer name eth0 netns "$name"
  ip link set "kv$id$pod" master "$bridge" up
  ip -n "$name" link set lo up
  ip -n "$name" addr add "10.97.0.1$pod/24" dev eth0
  ip -n "$name" link set eth0 up
done
(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/secret")

fresh_names() { # SUFFIX of each pod's full name
  for pod in $pods; do printf '127.0.0.1 localhost\n10.97.0.1%s train-%s%s train-%s\n' "$pod" "$pod" "$1" "$pod" >"$work/hosts.$pod"; done
}
publish() { for pod in $pods; do echo "10.97.0.10 train-0.$domain" >>"$work/hosts.$pod"; done; }

start_pod() { # INDEX NAME=value...: with these variables and no others
  pod=$1
  shift
  # shellcheck disable=SC2016 # for the inner shell
  ip netns exec "kp$id$pod" unshare -m -u sh -c '
    hostname "train-$1"
    mount --bind "$2" /etc/hosts
    shift 2
    exec env -i "$@"' sh "$pod" "$work/hosts.$pod" JOB_COMPLETION_INDEX="$pod" "$@" \
    "$bench" allreduce -b 4 -e 1M -f 64 -n 5 >"$work/out.$pod" 2>&1 &
  eval "pid$pod=\$!"
}
show() { for pod in $pods; do echo "--- pod $pod"; cat "$work/out.$pod" 2>/dev/null || true; done; }
fail() { echo "FAILED: $1"; show; exit 1; }
ends() { # INDEX: with its code
  code=0
  eval "wait \$pid$1" || code=$?
}
says() { grep -q -- "$2" "$work/out.$1" || fail "pod $1 does not say: $2"; }

echo "pod 0 comes last, and its name a second after it"
fresh_names ".$domain"
set -- RONDEL_SIZE=3 "RONDEL_SECRET_FILE=$work/secret"
for pod in 1 2 0; do start_pod $pod "$@"; done
timeout 1 tail -f /dev/null || true
publish
for pod in $pods; do
  ends $pod
  [ $code = 0 ] || fail "pod $pod ended with $code"
done
says 0 'ranks 3'

echo "another pod 0 is there with another address than a first answer said"
fresh_names ".$domain"
for pod in $pods; do echo "10.97.0.99 train-0.$domain" >>"$work/hosts.$pod"; done
for pod in $pods; do start_pod $pod "$@"; done
timeout 1 tail -f /dev/null || true
for pod in 1 2; do sed 's/10.97.0.99/10.97.0.10/' "$work/hosts.$pod" >"$work/new" && cat "$work/new" >"$work/hosts.$pod"; done
for pod in $pods; do
  ends $pod
  [ $code = 0 ] || fail "pod $pod ended with $code"
done

echo "MASTER_ADDR is known late, to pod 0 as well"
fresh_names ".$domain"
for pod in $pods; do start_pod $pod "$@" MASTER_ADDR=first.example MASTER_PORT=29400; done
timeout 1 tail -f /dev/null || true
for pod in $pods; do echo "10.97.0.10 first.example" >>"$work/hosts.$pod"; done
for pod in $pods; do
  ends $pod
  [ $code = 0 ] || fail "pod $pod ended with $code"
done
start_pod 0 "$@" MASTER_ADDR=nobody.example MASTER_PORT=29400 RONDEL_START_TIMEOUT_S=1
ends 0
[ $code != 0 ] || fail "a rank 0 of an unknown name went on"
says 0 'MASTER_ADDR "nobody.example"'

echo "what is missing is said"
fresh_names ".$domain"
start_pod 1 "$@" RONDEL_START_TIMEOUT_S=2
ends 1
[ $code != 0 ] || fail "a pod alone went on"
says 1 "can not resolve the name 'train-0.$domain'"
start_pod 1 RONDEL_SIZE=3
ends 1
says 1 'RONDEL_SECRET_FILE'
fresh_names ""
start_pod 0 "$@" # the program that runs lets rank 0 tell of what is wrong everywhere
ends 0
[ $code != 0 ] || fail "a pod without a domain went on"
says 0 'subdomain'
start_pod 2 # a Job of single processes, as most are
ends 2
[ $code = 0 ] || fail "a pod of a Job that is told no size ended with $code"
says 2 'ranks 1'
echo ok
