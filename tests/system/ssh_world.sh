# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Hosts that real ssh leads to: h1 to h4 as network namespaces on one bridge, each with its own name, host key, login
# shell, noisy login files and sshd, and a fifth, head, from which rondelrun is started. A docker0 with the same address
# is on each. Sourced by the scripts beside it, which set $rondelrun and then call make_hosts. Exit code 77: not possible
# here.

hosts='1 2 3 4'

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
  tail -n "${fail_lines:-20}" "$work"/sshd.* "$work"/out "$work"/err 2>/dev/null || true
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

start_sshd() { # host; commands in $work/before.HOST come first, for a host that differs from the others
  touch "$work/before.$1"
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
  on "$1" sh -c 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && . "$0" && exec "$@"' "$work/before.$1" \
    "$sshd" -D -e -f "$work/sshd_config.$1" >"$work/sshd.$1" 2>&1 &
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
  : >"$work/out" # now, not when the shell behind & gets to it: who waits for words must not find those of the job before
  : >"$work/err"
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
