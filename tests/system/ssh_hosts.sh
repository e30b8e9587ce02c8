#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rondelrun over real ssh: four hosts h1 to h4 as network namespaces on one bridge, each with its own name, host key, login
# shell, noisy login files and sshd, and a fifth, head, from which jobs are started. A docker0 with the same address is on
# each. usage: ssh_hosts.sh RONDELRUN HELPER TRAIN_DIGITS DIGITS CASE. Exit code 77: not possible here.
set -eu

rondelrun=$1 helper=$2 train=$3 digits=$4 case_name=$5
hosts='1 2 3 4'
slots2=h1:2,h2:2,h3:2,h4:2

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
for tool in ip unshare ssh ssh-keygen; do
  command -v $tool >/dev/null || skip "needs $tool (Debian packages iproute2, util-linux, openssh-client)"
done
sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || skip "needs sshd (Debian package openssh-server)"
unshare -n true 2>/dev/null || skip "the kernel or container forbids network namespaces"

work=$(mktemp -d)
chmod 755 "$work"
id=$(basename "$work" | tr -dc 'a-zA-Z0-9' | tail -c 5)
bridge="sb$id"
name_of() { echo "sh$id$1"; } # 0: head

clean_up() {
  for host in 0 $hosts; do
    for process in $(ip netns pids "$(name_of "$host")" 2>/dev/null); do kill -9 "$process" 2>/dev/null || true; done
    ip netns del "$(name_of "$host")" 2>/dev/null || true
  done
  ip link del "$bridge" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT

pause() { timeout 0.05 tail -f /dev/null || true; }
fail() {
  tail -n 20 "$work"/sshd.* "$work"/out "$work"/err 2>/dev/null || true
  echo "FAILED: $1"
  exit 1
}
wait_until() { # SECONDS WHAT command...: the command succeeds within that time
  limit=$(($(date +%s) + $1)) what=$2
  shift 2
  until "$@"; do
    [ "$(date +%s)" -le $limit ] || fail "not within time: $what"
    pause
  done
}

# Runs a command as on a host: its network, its name, its accounts. The mounts are private to the command.
on() { # HOST command...
  host=$1
  shift
  # shellcheck disable=SC2016 # for the inner shell
  ip netns exec "$(name_of "$host")" unshare -m -u sh -c '
    work=$1 host=$2
    shift 2
    hostname "$([ "$host" = 0 ] && echo head || echo "h$host")"
    mount --bind "$work/hosts" /etc/hosts
    mount --bind "$work/passwd.$host" /etc/passwd
    exec env HOME="$work/home.$host" "$@"' sh "$work" "$host" "$@"
}

shell_of() {
  case $1 in
    2) command -v dash || echo /bin/sh ;;
    3) command -v tcsh || echo /bin/sh ;;
    4) command -v fish || echo /bin/sh ;;
    *) command -v bash || echo /bin/sh ;;
  esac
}

make_home() { # host
  home="$work/home.$1"
  mkdir -p "$home/.ssh" "$home/.config/fish"
  chmod 700 "$home/.ssh"
  for file in .bashrc .cshrc .config/fish/config.fish; do echo 'echo "welcome, this is your login file"' >"$home/$file"; done
  sed "s|^root:.*|root:x:0:0:root:$home:$(shell_of "$1")|" /etc/passwd >"$work/passwd.$1"
}

make_host() { # host
  name=$(name_of "$1")
  ip netns add "$name"
  ip link add "sv$id$1" type veth peer name "net$1" netns "$name"
  ip link set "sv$id$1" master "$bridge" up
  ip -n "$name" link set lo up
  ip -n "$name" addr add "10.98.0.1$1/24" dev "net$1"
  ip -n "$name" link set "net$1" up
  ip -n "$name" link add docker0 type bridge
  ip -n "$name" addr add 172.17.0.1/16 dev docker0
  ip -n "$name" link set docker0 up
  make_home "$1"
  [ "$1" = 0 ] && echo "10.98.0.10 head" >>"$work/hosts" || echo "10.98.0.1$1 h$1" >>"$work/hosts"
}

start_sshd() { # host
  [ -f "$work/key.$1" ] || ssh-keygen -q -t ed25519 -N '' -f "$work/key.$1"
  cat >"$work/sshd_config.$1" <<END
HostKey $work/key.$1
AuthorizedKeysFile $work/authorized
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
Banner $work/banner
END
  # Its privilege separation folder, /run/sshd, is there only where a service has made it.
  # shellcheck disable=SC2016 # for the inner shell
  on "$1" sh -c 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"' sh "$sshd" -D -e \
    -f "$work/sshd_config.$1" >"$work/sshd.$1" 2>&1 &
}
await_sshd() { # host; nothing else runs there yet
  wait_until 10 "sshd of h$1 listens" grep -q 'Server listening' "$work/sshd.$1"
  ip netns pids "$(name_of "$1")" >"$work/sshd_pid.$1"
}

make_hosts() {
  printf '127.0.0.1 localhost\n' >"$work/hosts"
  echo 'Authorised use only.' >"$work/banner"
  ip link add "$bridge" type bridge || skip "no bridge devices here"
  ip link set "$bridge" up
  for host in 0 $hosts; do make_host "$host"; done
  ssh-keygen -q -t ed25519 -N '' -f "$work/home.0/.ssh/id_ed25519"
  cp "$work/home.0/.ssh/id_ed25519.pub" "$work/authorized"
  mkdir -p "$work/home.1/.ssh" && cp "$work/home.0/.ssh/id_ed25519" "$work/home.1/.ssh/" # h1 may start jobs too
  for host in $hosts; do start_sshd "$host"; done
  for host in $hosts; do await_sshd "$host"; done
}

launch() { on "${from:-0}" "$rondelrun" "$@" >"$work/out" 2>"$work/err" </dev/null; }
launch_in_background() {
  launch "$@" &
  launcher_job=$!
}
expect_code() { # CODE arguments of rondelrun...
  wanted=$1
  shift
  code=0
  launch "$@" || code=$?
  [ "$code" = "$wanted" ] || fail "rondelrun $* ended with $code, not $wanted"
}
says() { grep -q -- "$1" "$work/err" || fail "the launcher does not say: $1"; }
lines_of() { grep -c "$1" "$work/out" || true; }
has_lines() { [ "$(lines_of "$1")" -ge "$2" ]; }

# Everything that runs on a host beside its sshd.
others_on() { ip netns pids "$(name_of "$1")" | grep -vx "$(cat "$work/sshd_pid.$1")" || true; }
# The sshd of a dead connection is the system's business, not ours.
empty() {
  for host in $hosts; do
    for process in $(others_on "$host"); do
      [ "$(cat "/proc/$process/comm" 2>/dev/null || echo sshd)" = sshd ] || return 1
    done
  done
}
nothing_is_left() { wait_until "${1:-8}" "no process of the job on any host" empty; }
pid_of() { # NAME PROCESS...: the last of them that has this name
  wanted=$1
  shift
  for process in "$@"; do
    if [ "$(cat "/proc/$process/comm" 2>/dev/null)" = "$wanted" ]; then echo "$process"; fi
  done | tail -n 1
}
# shellcheck disable=SC2046 # words
on_host() { pid_of "$2" $(others_on "$1"); }
# shellcheck disable=SC2046
launcher_on_head() { pid_of rondelrun $(ip netns pids "$(name_of 0)"); }
ssh_to() { # the launcher's ssh to a host
  for process in $(ip netns pids "$(name_of 0)"); do
    if tr '\0' '\n' <"/proc/$process/cmdline" 2>/dev/null | grep -qx "$1"; then echo "$process"; fi
  done | head -n 1
}
ended_with() { # the background launcher's exit code
  code=0
  wait "$launcher_job" || code=$?
  [ "$code" = "$1" ] || fail "the launcher ended with $code, not $1"
}
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
    from=0
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
    says 'host h3: it can not reach the launcher.s host at 172.17.0.1:'
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
