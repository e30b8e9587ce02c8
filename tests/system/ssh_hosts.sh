#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondelrun over real ssh, on the hosts of ssh_world.sh.
# usage: ssh_hosts.sh RONDELRUN HELPER TRAIN_DIGITS DIGITS CASE. Exit code 77: not possible here.
set -eu

rondelrun=$1 helper=$2 train=$3 digits=$4 case_name=$5
slots2=h1:2,h2:2,h3:2,h4:2
# shellcheck source=tests/system/ssh_world.sh
. "$(dirname "$0")/ssh_world.sh"

start_stubborn_job() {
  launch_in_background -H $slots2 --kill-grace 1 "$helper" family wait
  wait_until 20 "8 ranks are ready" has_lines ready 8
}

make_hosts
case $case_name in
  training) # the digits example on four hosts, started from outside and from one of them, against eight local ranks
    settings='--transport tcp --algorithm ring'
    # shellcheck disable=SC2086 # words
    "$rondelrun" -np 8 $settings "$train" --data "$digits" --save "$work/local" >"$work/out" 2>&1 || fail "the local run"
    for from in 0 1; do
      # shellcheck disable=SC2086
      expect_code 0 -np 8 -H $slots2 $settings "$train" --data "$digits" --save "$work/remote.$from"
      cmp "$work/local" "$work/remote.$from" || fail "the parameters differ from a local run's"
      nothing_is_left
    done
    from=0 # for launch()
    expect_code 0 -np 8 -H $slots2 "$train" --data "$digits" # shared memory inside the hosts
    ;;
  start) # 16 ranks on 4 hosts: who and where they are, what nobody else may see, how soon they meet
    expect_code 0 -v -H h1:4,h2:4,h3:4,h4:4 "$helper" report
    [ "$(lines_of 'RONDEL_STORE=tcp://10.98.0.10:')" = 16 ] || fail "the ranks do not use the launcher's address"
    [ "$(lines_of 'MASTER_ADDR=10.98.0.11$')" = 16 ] || fail "MASTER_ADDR is not h1's address"
    [ "$(lines_of 'LOCAL_WORLD_SIZE=4$')" = 16 ] || fail "a local size is wrong"
    for rank in 0 1 2 3; do
      [ "$(lines_of ": LOCAL_RANK=$rank\$")" = 4 ] || fail "local rank $rank is not there four times"
    done
    for host in $hosts; do says "host h$host calls itself h$host;"; done
    best=99999
    for _ in 1 2 3; do
      began=$(date +%s%N)
      expect_code 0 -H h1:4,h2:4,h3:4,h4:4 "$helper" join 16 leave
      took=$((($(date +%s%N) - began) / 1000000))
      [ $took -ge $best ] || best=$took
    done
    echo "16 ranks on 4 hosts met and left after $best ms, the best of 3"
    [ $best -lt 3000 ] || fail "more than 3 s to the first meeting"
    launch_in_background -H $slots2 sh -c "'$helper' report; exec '$helper' signals"
    wait_until 20 "8 ranks are ready" has_lines ready 8
    secret=$(sed -n 's/.*secret=//p' "$work/out" | head -n 1)
    [ ${#secret} = 64 ] || fail "no secret"
    raw=$(echo "$secret" | cut -c 1-16 | sed 's/../\\x&/g')
    for file in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do
      if LC_ALL=C grep -qaF "$secret" "$file" 2>/dev/null || LC_ALL=C grep -qaP "$raw" "$file" 2>/dev/null; then
        case $file in "/proc/$$/"*) continue ;; esac
        fail "the job secret is in $file"
      fi
    done
    kill "$(launcher_on_head)"
    ended_with 143
    nothing_is_left
    ;;
  output) # 10,000 lines of each of 8 ranks, and 200 MB of one
    expect_code 0 -H $slots2 "$helper" lines 10000
    awk '{ rank = substr($1, 2, 1)
           if ($0 != "[" rank "]<stdout>: line " next_line[rank] + 0 " of rank " rank) { print "wrong: " $0; exit 1 }
           next_line[rank]++ }
         END { for (rank = 0; rank < 8; rank++) if (next_line[rank] != 10000) exit 1 }' "$work/out" || fail "lines are wrong"
    began=$(date +%s%N)
    expect_code 0 -H h1 --no-tag-output head -c 200000000 /dev/zero
    [ "$(wc -c <"$work/out")" = 200000000 ] || fail "bytes are missing"
    echo "200 MB through ssh: $((200000 / (($(date +%s%N) - began) / 1000000))) MB/s"
    head -c 3000000 /dev/urandom | base64 >"$work/input"
    # shellcheck disable=SC2016 # for the ranks
    on 0 "$rondelrun" -H h1,h4 --stdin 1 --no-tag-output sh -c '[ "$RANK" = 0 ] || exec cat' <"$work/input" >"$work/out" 2>"$work/err"
    cmp "$work/input" "$work/out" || fail "the standard input did not arrive whole on h4"
    ;;
  rate) # what ssh lets through, and what of it reaches the launcher's output; in turns, as other programs take their share
    bytes=400000000
    head -c $bytes /dev/zero >"$work/file" # as fast for ssh as any other
    for _ in 1 2 3; do
      began=$(date +%s%N)
      # shellcheck disable=SC2016 # for the inner shell
      on 0 sh -c 'ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new h1 "cat \"$1\"" 2>/dev/null | cat >/dev/null' sh "$work/file"
      bound=$((bytes * 1000 / ($(date +%s%N) - began)))
      began=$(date +%s%N)
      # shellcheck disable=SC2016
      on 0 sh -c '"$@" | cat >/dev/null' sh "$rondelrun" -H h1 --no-tag-output cat "$work/file" 2>"$work/err"
      ours=$((bytes * 1000 / ($(date +%s%N) - began)))
      echo "plain ssh $bound MB/s, a rank's output $ours MB/s: $((ours * 100 / bound)) %"
      [ $((ours * 100 / bound)) -lt 40 ] || enough=yes
    done
    [ "${enough:-no}" = yes ] || fail "less than 40 % of what ssh lets through, three times"
    ;;
  late) # h2's sshd and h3's name are not there at first
    kill "$(cat "$work/sshd_pid.2")"
    wait_until 5 "sshd of h2 has ended" [ ! -d "/proc/$(cat "$work/sshd_pid.2")" ]
    cp "$work/hosts" "$work/all_hosts"
    grep -v h3 "$work/all_hosts" >"$work/hosts"
    launch_in_background -H h1,h2,h3 --wait-for-hosts 20 "$helper" write here
    says_later() { grep -q -- "$1" "$work/err"; }
    wait_until 5 'h2 is tried again' says_later 'host h2: nothing answers ssh on that port'
    wait_until 5 'h3 is tried again' says_later 'host h3: its name can not be resolved'
    start_sshd 2
    cat "$work/all_hosts" >"$work/hosts"
    ended_with 0
    [ "$(lines_of here)" = 3 ] || fail "not all ranks ran"
    ;;
  refusals) # what is said when a host can not take part; no rank starts anywhere
    expect_code 255 -H h1,h9 true
    says 'host h9: its name can not be resolved'
    expect_code 255 -H h1,h2 -p 2299 true
    says 'host h1: nothing answers ssh on that port'
    says 'host h2: nothing answers ssh on that port'
    expect_code 255 -H h1,h2 --remote-path /no/such/rondelrun true
    for host in 1 2; do says "host h$host: /no/such/rondelrun is not there"; done
    expect_code 255 -H h3,h4 --remote-path /no/such/rondelrun true
    for host in 3 4; do says "host h$host: /no/such/rondelrun is not there"; done
    expect_code 255 -H h1,h3 --wdir "$work/nowhere" true
    says "host h[13]: cannot start rank [01]: changing to directory $work/nowhere"
    ssh-keygen -q -t ed25519 -N '' -f "$work/other_key"
    expect_code 255 -H h2 -i "$work/other_key" --ssh-arg=-oIdentitiesOnly=yes --ssh-arg=-oIdentityFile=none true
    says 'host h2: it refused the login'
    ip -n "$(name_of 0)" route add blackhole 10.98.0.14/32
    expect_code 255 -H h1,h4 --start-timeout 2 true
    says 'host h4: '
    ip -n "$(name_of 0)" route del blackhole 10.98.0.14/32
    # h3 lets ssh in, but can not connect to the launcher: its answers to ssh leave by the route that is there.
    expect_code 255 -H h3 --start-timeout 3 --net docker0 true
    says 'host h3: it can not reach the launcher.s host in .* s: .*172.17.0.1:'
    kill "$(cat "$work/sshd_pid.3")"
    wait_until 5 "sshd of h3 has ended" [ ! -d "/proc/$(cat "$work/sshd_pid.3")" ]
    rm "$work/key.3" "$work/key.3.pub"
    start_sshd 3
    await_sshd 3
    expect_code 255 -H h3 true
    says 'host h3: its host key is not'
    nothing_is_left
    ;;
  kills) # whoever is killed, nothing is left on any host
    start_stubborn_job
    kill -9 "$(ssh_to h3)"
    ended_with 255
    says 'lost contact with host h3 (ranks 4, 5): ssh was killed by signal 9'
    nothing_is_left
    start_stubborn_job
    kill -9 "$(on_host 2 rondelrun)"
    ended_with 255
    says 'lost contact with host h2 (ranks 2, 3): its agent went away'
    nothing_is_left
    start_stubborn_job
    kill -9 "$(launcher_on_head)"
    wait "$launcher_job" && fail "a killed launcher ended well"
    nothing_is_left
    start_stubborn_job
    kill -9 "$(cat "$work/sshd_pid.4")" # the listener alone changes nothing for who is in
    kill -9 "$(on_host 4 sshd)"
    ended_with 255
    says 'lost contact with host h4 (ranks 6, 7)'
    nothing_is_left
    ;;
  silence) # the link of h3 goes down without a word: both sides give up
    launch_in_background -x RONDEL_SILENCE_TIMEOUT_S=6 -H $slots2 --kill-grace 1 "$helper" family wait
    wait_until 20 "8 ranks are ready" has_lines ready 8
    ip link set "sv${id}3" down
    began=$(date +%s)
    ended_with 255
    says 'lost contact with host h3 (ranks 4, 5): '
    echo "the launcher gave up after $(($(date +%s) - began)) s"
    [ $(($(date +%s) - began)) -le 12 ] || fail "the launcher took too long"
    nothing_is_left 12
    ;;
  *) echo "no case $case_name"; exit 2 ;;
esac
echo "$case_name: ok"
