#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondelrun doctor on the hosts of ssh_world.sh: what is well, and what is not, must both be seen.
# usage: doctor_hosts.sh RONDELRUN CASE. Exit code 77: not possible here.
set -eu

rondelrun=$(readlink -f "$1") case_name=$2
all=h1:2,h2:2,h3:2,h4:2
three=h1,h2:2,h3
# shellcheck source=tests/system/ssh_world.sh
. "$(dirname "$0")/ssh_world.sh"

# All of a page's words with single spaces: it breaks lines where it likes.
page_words() { tr -s ' \n' '  ' <"$work/out"; }
shows() { page_words | grep -q -- "$1" || fail "the page does not say: $1"; }
shows_not() { if page_words | grep -q -- "$1"; then fail "the page says: $1"; fi; }
examine() { # CODE arguments of doctor...
  wanted=$1
  shift
  expect_code "$wanted" doctor "$@"
}
json() { # EXPRESSION over the report d
  python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(0 if eval(sys.argv[2]) else 1)' "$work/out" "$1" ||
    fail "not so in the report: $1"
}


# Ends and begins the sshd of a host anew, with what $work/before.HOST says now.
restart_sshd() { # host
  kill "$(cat "$work/sshd_pid.$1")"
  wait_until 5 "sshd of h$1 has ended" [ ! -d "/proc/$(cat "$work/sshd_pid.$1")" ]
  start_sshd "$1"
  await_sshd "$1"
}

make_hosts
case $case_name in
  well) # from outside and from one of the hosts, as a page and as JSON
    from=1
    examine 0 -H h1:2,h2:2,h3:2
    cat "$work/out"
    shows 'All is well\.\|0 errors, '
    shows 'next: .*rondelrun -H h1:2,h2:2,h3:2 '
    shows_not FAILS
    nothing_is_left
    from=0 # for launch()
    RONDEL_PORTS=40000-40009 examine 0 -H $all --net '10.98.0.0/16' --json
    json 'd["ok"] and d["ranks"] == 8 and d["version"] and d["next"]'
    json '[p for p in d["problems"] if p["severity"] != "warning"] == [] and d["notes"] == []'
    json '[h["host"] for h in d["hosts"]] == ["h1", "h2", "h3", "h4"] == [h["own_name"] for h in d["hosts"]]'
    json 'all(h["lost"] is None and h["to_launcher"][0]["reached"] for h in d["hosts"])'
    json 'all(abs(h["clock_ahead_s"]) <= 1 and h["clock_uncertain_s"] < 1 for h in d["hosts"])'
    json 'all(h["facts"]["ports"]["listening"] == [40000, 40009] for h in d["hosts"])'
    json 'all(h["facts"]["ports"]["free_in_range"] == 10 for h in d["hosts"])'
    json 'len(d["pairs"]) == 12 and all(p["reached"] and p["measured"]["bits_per_second"] > 1e6 for p in d["pairs"])'
    json 'all(0 < p["measured"]["round_trip_us"] < 1e6 and p["measured"]["path_mtu"] == 1500 for p in d["pairs"])'
    json 'all(h["facts"]["usable_cores"] > 0 and h["facts"]["memory_bytes"] > 0 for h in d["hosts"])'
    json 'all("tcp" in [t["name"] for t in h["facts"]["transports"] if t["usable"]] for h in d["hosts"])'
    json '[n["mtu"] for n in d["hosts"][2]["facts"]["nics"] if n["chosen"]] == [1500]'
    nothing_is_left
    ;;
  one-way) # h3 may not open connections to h1, though h1 may to h3, which matters when its ranks are the first; then neither;
    # then nobody to h3
    RONDEL_PORTS=40000-40019
    export RONDEL_PORTS
    ip -n "$(name_of 3)" rule add to 10.98.0.11 ipproto tcp dport 40000-40019 prohibit 2>/dev/null ||
      skip "the kernel has no routing rules for ports"
    examine 0 -H $three
    shows 'warning h3 can not connect to h1 (but h1 to h3), which no rank needs while hosts and ranks are in this order; '
    examine 1 -H h3,h2:2,h1
    shows 'ERROR h3 can not connect to h1 (but h1 to h3); .*10.98.0.11:400'
    shows 'fix: '
    shows '1 error, '
    shows_not '^next:'
    cat "$work/out"
    ip -n "$(name_of 3)" rule del to 10.98.0.11 ipproto tcp dport 40000-40019 prohibit
    ip -n "$(name_of 3)" route add blackhole 10.98.0.11/32
    examine 1 -H $three
    shows 'ERROR h1 can not connect to h3;'
    shows 'ERROR h3 can not connect to h1;'
    shows '2 errors, '
    ip -n "$(name_of 3)" rule add from 10.98.0.13 to 10.98.0.12 ipproto tcp sport 40000-40019 blackhole
    examine 1 -H $three
    shows 'ERROR no host can connect to h3;'
    # The way to the launcher is closed.
    ip -n "$(name_of 3)" route del blackhole 10.98.0.11/32
    ip -n "$(name_of 4)" rule add to 10.98.0.10 ipproto tcp dport 40000-40019 prohibit
    examine 1 -H h1,h4
    shows 'ERROR h4 can not connect to this host, where ranks meet'
    nothing_is_left
    ;;
  sick) # another version, no rondelrun, few files, a name that leads to itself; one good host
    mkdir "$work/bin"
    ln -s "$rondelrun" "$work/bin/rondelrun"
    mkdir "$work/bin.2" "$work/bin.3"
    cat >"$work/bin.2/rondelrun" <<'END'
#!/bin/sh
printf '\n\001\002rondelrun agent speaks\002\001\n\025\000\000\000\000\011\000\005\000\000\0000.0.1\005\000\000\000older'
cat >/dev/null
END
    chmod +x "$work/bin.2/rondelrun"
    for host in 2 3; do echo "mount --bind '$work/bin.$host' '$work/bin'" >"$work/before.$host"; done
    sed 's/^10.98.0.14 h4/127.0.1.1 h4/' "$work/hosts" >"$work/hosts.4"
    echo "ulimit -n 40; mount --bind '$work/hosts.4' /etc/hosts" >"$work/before.4"
    for host in 2 3 4; do restart_sshd $host; done
    examine 1 -H h1:2,h2:2,h3:2,h4:8 --remote-path "$work/bin/rondelrun"
    cat "$work/out"
    shows 'ERROR h2: .* there is version 0.0.1 (protocol 9), this is version'
    shows 'ERROR h3: .*/bin/rondelrun is not there'
    shows 'fix: install the same one, or give its place with --remote-path; try it by hand: ssh h2 '
    shows "fix: install the same rondelrun .*; try it by hand: ssh h3 $work/bin/rondelrun --version"
    shows 'ERROR h4: a process may have 40 open files at most; starting 8 ranks takes 48'
    shows 'warning h4: its own name h4 leads to 127.0.1.1'
    shows '3 errors, '
    kill "$(cat "$work/sshd_pid.1")"
    wait_until 5 "sshd of h1 has ended" [ ! -d "/proc/$(cat "$work/sshd_pid.1")" ]
    examine 1 -H h1,h4 --remote-path "$work/bin/rondelrun" --json
    json 'not d["ok"] and "nothing answers ssh on that port" in d["hosts"][0]["lost"] and d["hosts"][0]["facts"] is None'
    json 'd["hosts"][1]["lost"] is None and d["hosts"][1]["facts"]["open_files"]["hard"] == 40'
    json '[p["severity"] for p in d["problems"] if p["hosts"] == ["h1"]] == ["error"]'
    json 'all(p["problem"] and p["fix"] for p in d["problems"])'
    RONDEL_ENCRYPT=1 examine 1 -H h4 --remote-path "$work/bin/rondelrun"
    shows 'ERROR this host: RONDEL_ENCRYPT=1 asks for encrypted links'
    nothing_is_left
    ;;
  networks) # addresses of version 6 alone; thirty bridges on one host; one network that leads nowhere; MTUs
    for host in 1 2 3; do
      ip -n "$(name_of $host)" link add side$host type bridge
      ip -n "$(name_of $host)" addr add 10.97.0.1$host/24 dev side$host
      ip -n "$(name_of $host)" link set side$host up
    done
    for n in $(seq 18 47); do
      ip -n "$(name_of 2)" link add "br-$n" type bridge
      ip -n "$(name_of 2)" addr add "172.$n.0.1/16" dev "br-$n"
      ip -n "$(name_of 2)" link set "br-$n" up
    done
    ip -n "$(name_of 3)" link set net3 mtu 1400
    began=$(date +%s)
    examine 0 -H h1,h2,h3
    took=$(($(date +%s) - began))
    cat "$work/out"
    [ $took -le 30 ] || fail "it took $took s"
    shows '2 h2 net2 10.98.0.12/24 .*; and 29 more'
    shows 'warning in 10.97.0.0/24 a connection fails from h1 to 10.97.0.1[23]:.* (side[23] of h[23]), and 5 more do'
    shows 'warning hosts of 10.98.0.0/24 differ in MTU: 1400 on h3, 1500 on h1 and 1 more'
    # Full packets of h1 and h3 are lost on the way, without a word; the small ones pass.
    jumbo() { ip -n "$(name_of "$1")" link set "net$1" mtu 9000 gso_max_segs 1 2>/dev/null; }
    if jumbo 1 && jumbo 3; then
      examine 1 -H h1,h3
      shows 'ERROR small messages pass from h1 to h3, large ones do not: '
      shows "fix: full packets get lost .*'ping -M do -s 8972 10.98.0.13' on h1"
      for host in 1 3; do ip -n "$(name_of $host)" link set net$host mtu 1500; done
    fi
    printf '127.0.0.1 localhost\nfd00:98::10 head\n' >"$work/hosts"
    for host in 0 $hosts; do
      ip -n "$(name_of $host)" addr add "fd00:98::1$host/64" dev "net$host" nodad
      ip -n "$(name_of $host)" addr flush dev docker0
      ip -n "$(name_of $host)" -4 addr flush dev "net$host"
      [ "$host" = 0 ] || echo "fd00:98::1$host h$host" >>"$work/hosts"
    done
    examine 0 -H h1,h4
    shows '1 h1 net1 fd00:98::11/64'
    shows_not FAILS
    nothing_is_left
    ;;
  stopped) # a host that stops answering in the middle is named; a signal leaves nothing
    launch_in_background doctor -x RONDEL_SILENCE_TIMEOUT_S=4 -H $all
    agent_is_there() { [ -n "$(on_host 3 rondelrun)" ]; }
    wait_until 20 "an agent on h3" agent_is_there
    kill -STOP "$(on_host 3 rondelrun)"
    ended_with 1
    shows 'ERROR h3: '
    shows '1 error, '
    cat "$work/out"
    kill -CONT "$(on_host 3 rondelrun)"
    nothing_is_left
    launch_in_background doctor -H $all
    wait_until 20 "an agent on h3" agent_is_there
    kill "$(launcher_on_head)"
    ended_with 143
    shows 'stopped by SIGTERM'
    nothing_is_left
    ;;
  *) echo "no case $case_name"; exit 2 ;;
esac
echo "$case_name: ok"
