#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Four hosts as network namespaces on one bridge, each with its own host name and, like real ones, a docker0 bridge that
# has the same address everywhere. usage: namespaces.sh RONDEL_BENCH CASE. Exit code 77: not possible here.
set -eu

bench=$1
case_name=$2
work=$(mktemp -d)
id=$(basename "$work" | tr -dc 'a-zA-Z0-9' | tail -c 5)
bridge="rb$id"

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "needs ip (Debian package iproute2)"
unshare -n true 2>/dev/null || skip "the kernel or container forbids network namespaces"

clean_up() {
  for host in 0 1 2 3; do ip netns del "rh$id$host" 2>/dev/null || true; done
  ip link del "$bridge" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

make_hosts() { # family
  ip link add "$bridge" type bridge || skip "no bridge devices here"
  ip link set "$bridge" up
  for host in 0 1 2 3; do
    name="rh$id$host"
    ip netns add "$name"
    ip link add "rv$id$host" type veth peer name "net$host" netns "$name"
    ip link set "rv$id$host" master "$bridge" up
    ip -n "$name" link set lo up
    if [ "$1" = 4 ]; then ip -n "$name" addr add "10.99.0.1$host/24" dev "net$host"
    else ip -n "$name" addr add "fd00:99::1$host/64" dev "net$host" nodad; fi
    ip -n "$name" link set "net$host" up
    ip -n "$name" link add docker0 type bridge
    ip -n "$name" addr add 172.17.0.1/16 dev docker0
    ip -n "$name" link set docker0 up
  done
  head -c 32 /dev/urandom >"$work/secret"
  chmod 600 "$work/secret"
  mkdir -m 700 "$work/store"
}

start_rank() { # rank, words for rondel-bench; on the host of its number, or as $hosts says by rank
  rank=$1
  shift
  host=$(echo "${hosts:-0 1 2 3}" | cut -d ' ' -f $((rank + 1)))
  RONDEL_RANK=$rank RONDEL_SIZE=4 RONDEL_STORE="file://$work/store" RONDEL_SECRET_FILE="$work/secret" \
    RONDEL_NET="${net:-^docker0}" RONDEL_START_TIMEOUT_S=${patience:-20} RONDEL_SILENCE_TIMEOUT_S=3 RONDEL_TIMEOUT_S=${limit:-30} \
    ip netns exec "rh$id$host" unshare -u sh -c 'hostname "$0"; exec "$@"' "${same_name:-node$host}" "$bench" "$@" \
    >"$work/out.$rank" 2>&1 &
  eval "pid$rank=\$!"
}

show() { for host in 0 1 2 3; do echo "--- rank $host"; cat "$work/out.$host"; done; }
fail() { echo "FAILED: $1"; show; exit 1; }

expect_refusal() { # RANK WORDS: it ends with a failure, and its output has these
  if eval "wait \$pid$1"; then fail "rank $1 went on"; fi
  grep -q -- "$2" "$work/out.$1" || fail "rank $1 does not say: $2"
}

await_traffic() { # HOST...: all are connected once each has sent megabytes more
  for host in "$@"; do
    tries=0 before=$(sent_by "$host")
    until [ $(($(sent_by "$host") - before)) -gt 4000000 ]; do
      tries=$((tries + 1))
      [ $tries -lt 300 ] || fail "no traffic at host $host"
      pause 0.1
    done
  done
}

pause() { timeout "$1" tail -f /dev/null || true; }

# Two hosts of two ranks sum without end, over shared memory and TCP.
sum_on_two_hosts() {
  hosts='0 0 1 1'
  rm -rf --one-file-system "$work/store"
  mkdir -m 700 "$work/store"
  for rank in 0 1 2 3; do start_rank $rank allreduce -b 1M -e 1M -n "${sums:-1000000}" -c 0; done
  await_traffic 0 1
}

expect_blame() { # SECONDS WORDS RANK...: these end with a failure that says so, in time
  limit_s=$1 words=$2 since=$(date +%s)
  shift 2
  for rank in "$@"; do expect_refusal "$rank" "$words"; done
  took=$(($(date +%s) - since))
  [ $took -le "$limit_s" ] || fail "it took $took s to notice"
  echo "noticed after $took s"
}

expect_success() {
  for host in 0 1 2 3; do
    eval "wait \$pid$host" || fail "rank $host ended with $?"
  done
}

slow_down() { # 1 Gbit/s out of each host
  command -v tc >/dev/null || skip "needs tc (Debian package iproute2)"
  for host in 0 1 2 3; do
    ip netns exec "rh$id$host" tc qdisc add dev "net$host" root tbf rate 1gbit burst 256kb latency 20ms ||
      skip "no tbf queueing discipline here"
  done
}

sent_by() { ip netns exec "rh$id$1" cat "/sys/class/net/net$1/statistics/tx_bytes"; }

# run_ranks is run until it reaches the line's rate, up to three times, as other programs can only slow it down. $1: how
# many times the vector leaves each host, at 125 bytes a microsecond.
expect_line_rate() {
  for _ in 1 2 3; do
    run_ranks
    expect_success
    share=$(awk -v times="$1" '$1 == 67108864 { printf "%.1f", 100 * $1 * times / $10 / 125 }' "$work/out.0")
    echo "$share % of the line's rate"
    if awk -v share="$share" 'BEGIN { exit !(share >= 92) }'; then return; fi
  done
  fail "$share % of the line's rate, less than 92"
}

case $case_name in
  ipv4 | ipv6)
    if [ "$case_name" = ipv4 ]; then make_hosts 4; else make_hosts 6; net='fd00:99::/64'; fi
    for host in 0 1 2 3; do start_rank $host allreduce -b 4 -e 1M -f 64 -n 5; done
    expect_success
    grep -q 'ranks 4' "$work/out.0" || fail "rank 0 printed no table"
    ;;
  cloned-bridge) # of one name; nothing is excluded: every host advertises docker0's address, which leads back to itself
    make_hosts 4
    net='10.99.0.0/24,172.17.0.0/16'
    same_name=clone
    for host in 0 1 2 3; do start_rank $host allreduce -b 4 -e 64K -f 64 -n 5; done
    expect_success
    grep -q 'transport tcp' "$work/out.0" || fail "hosts that share a kernel and a name, but no memory, must use tcp"
    ;;
  two-families) # two hosts that have only IPv6, two that have only IPv4
    make_hosts 4
    for host in 0 1; do
      ip -n "rh$id$host" addr del "10.99.0.1$host/24" dev "net$host"
      ip -n "rh$id$host" addr add "fd00:99::1$host/64" dev "net$host" nodad
    done
    patience=4
    for host in 0 1 2 3; do start_rank $host allreduce -b 4 -e 4 -n 1; done
    for host in 0 1; do expect_refusal $host '2 of 4 ranks did not come to world in time: 2, 3'; done
    for host in 2 3; do
      expect_refusal $host "host node$host has no way to \[fd00:99::10\]:[0-9]*, an IPv6 address (Network is unreachable)"
      expect_refusal $host 'share a network, of one IP version (RONDEL_NET chooses it)'
    done
    ;;
  unknown-source) # host 1 dials from an address that no rank knows of
    make_hosts 4
    net=10.99.0.0/24
    ip -n "rh${id}1" addr add 10.97.0.1/32 dev net1
    ip -n "rh${id}1" route replace 10.99.0.0/24 dev net1 src 10.97.0.1
    for host in 0 2 3; do ip -n "rh$id$host" route add 10.97.0.1/32 dev "net$host"; done
    for host in 0 1 2 3; do start_rank $host allreduce -b 4 -e 64K -f 64 -n 5; done
    expect_success
    ;;
  closed-ports) # hosts 2 and 3 reach the meeting point, not each other; the kernel says so, or nothing answers
    make_hosts 4
    patience=4
    for how in prohibit blackhole; do
      ip -n "rh${id}2" route replace $how 10.99.0.13/32
      ip -n "rh${id}3" route replace $how 10.99.0.12/32
      for host in 0 1 2 3; do start_rank $host allreduce -b 4 -e 4 -n 1; done
      for host in 0 1 2 3; do
        expect_refusal $host 'rank 2: no connection to rank 3 (host node3): connecting to 10.99.0.13:[0-9]*: '
        expect_refusal $host 'no firewall is between the hosts (RONDEL_NET, RONDEL_PORTS)'
      done
    done
    ;;
  no-such-interface)
    make_hosts 4
    net=nope0
    start_rank 0 allreduce -b 4 -e 4 -n 1
    if wait "$pid0"; then fail "an interface that does not exist was accepted"; fi
    grep -q 'nope0' "$work/out.0" && grep -q '10.99.0.10/24' "$work/out.0" || fail "the error does not list the interfaces"
    ;;
  silent-loss)
    make_hosts 4
    for host in 0 1 2 3; do start_rank $host allreduce -b 1M -e 1M -n 1000000 -c 0; done
    await_traffic 0 1 2 3
    for host in 0 1 2; do ip -n "rh${id}3" route add blackhole "10.99.0.1$host/32"; done
    lost_at=$(date +%s)
    for host in 0 1 2; do
      if eval "wait \$pid$host"; then fail "rank $host did not notice that rank 3 is gone"; fi
      grep -q 'rank 3' "$work/out.$host" || fail "rank $host does not name rank 3"
    done
    took=$(($(date +%s) - lost_at))
    [ $took -le 12 ] || fail "it took $took s to notice"
    echo "noticed after $took s"
    eval "kill -9 \$pid3" 2>/dev/null || true
    ;;
  line-rate) # a ring of four moves 3/2 of the vector out of each host
    make_hosts 4
    slow_down
    run_ranks() { for host in 0 1 2 3; do start_rank $host allreduce -b 64M -e 64M -n 5 -w 1; done; }
    expect_line_rate 1.5
    ;;
  shared-hosts) # two ranks on each of two hosts, one after the other and side by side; and three on one
    make_hosts 4
    for hosts in '0 1 0 1' '0 0 1 1' '0 1 1 1'; do
      for rank in 0 1 2 3; do start_rank $rank allreduce -b 4 -e 16M -f 64 -n 5; done
      expect_success
      grep -q 'transport shm+tcp' "$work/out.0" || fail "ranks of one host do not share memory"
    done
    ;;
  shared-hosts-killed) # by neighbours of its own host and of the other
    make_hosts 4
    sum_on_two_hosts
    kill -9 "$pid2"
    expect_blame 4 'rank 2' 0 1 3
    grep -q 'transport shm+tcp' "$work/out.0" || fail "ranks of one host do not share memory"
    ;;
  shared-hosts-stopped) # one that goes on in time has held the others up and no more; one that does not is named
    make_hosts 4
    limit=5 sums=3000
    sum_on_two_hosts
    kill -STOP "$pid2"
    pause 2
    kill -CONT "$pid2"
    expect_success
    limit=2 sums=1000000
    sum_on_two_hosts
    kill -STOP "$pid2"
    expect_blame 6 'rank 2' 0 1 3
    kill -9 "$pid2"
    ;;
  shared-hosts-silent) # each host hears nothing of the other any more; who blames whom depends on where the server is
    make_hosts 4
    sum_on_two_hosts
    ip -n "rh${id}1" route add blackhole 10.99.0.10/32
    expect_blame 12 'rank [23]' 0 1
    expect_refusal 2 'rank [0-3]'
    expect_refusal 3 'rank [0-3]'
    ;;
  shared-hosts-line-rate) # two hosts of two ranks: the vector leaves each host once, not more, at the rate of its line
    make_hosts 4
    slow_down
    hosts='0 0 1 1'
    run_ranks() {
      before=$(sent_by 0)
      for rank in 0 1 2 3; do start_rank $rank allreduce -b 64M -e 64M -n 5 -w 1 -c 0; done
    }
    expect_line_rate 1
    awk -v sent=$(($(sent_by 0) - before)) 'BEGIN { times = sent / 67108864 / 12  # 6 out of place, 6 in place
      printf "%.3f of the vector left host 0 each time, headers included\n", times; exit !(times <= 1.04) }' ||
      fail "more than the vector leaves a host"
    ;;
  *) echo "no case $case_name"; exit 2 ;;
esac
echo "$case_name: ok"
