# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Set-up that quickstart and check share: packages from the distribution, and build folders. Sourced, from the root of
# the tree. Asks nothing, installs only what is missing.

build_packages=(meson ninja-build g++ pkg-config libboost1.81-dev libspdlog-dev libfmt-dev libssl-dev
  libcli11-dev nlohmann-json3-dev catch2 libibverbs-dev libhwloc-dev)
# What only tests of ./check --full need; without them those are skipped.
peer_packages=(slurm-wlm munge mpich openssh-server iproute2 tcsh fish)
lint_packages=(clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev)

# The release build in build/: everything that Debian's packages allow, or an error that says what is missing.
release_options=(-Dtcp=enabled -Dverbs=enabled -Dlauncher=enabled -Dhwloc=enabled -Dbench=enabled -Dexamples=enabled -Dtests=enabled)

stop() {  # stop "what happened" "what to do"
  printf '\n%s: %s\n' "${0##*/}" "$1" >&2
  [ $# -lt 2 ] || printf '  fix: %s\n' "$2" >&2
  exit 1
}

# Prints the packages among the arguments that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

# Sets `as_root` to the words that run a command as root; empty array when we are root already.
find_root() {
  as_root=()
  [ "$(id -u)" -ne 0 ] || return 0
  command -v sudo >/dev/null || return 1
  if sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  elif [ -t 0 ]; then
    as_root=(sudo)
  else
    return 1
  fi
}

apt() {  # apt-get without questions; waits for another apt to finish
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

no_candidate() {  # true when apt's lists do not know one of the packages
  local package
  for package in "$@"; do
    apt-cache policy "$package" 2>/dev/null | grep -q '^  Candidate: [^(]' || return 0
  done
  return 1
}

# install_packages PACKAGE...: does nothing when all are there. Returns 1 with `install_error` set when it can not.
install_packages() {
  install_error=
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    install_error="this is not a Debian system (no apt-get), so nothing was installed; the packages are: $*"
    return 1
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  local command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  if ! find_root; then
    install_error="packages are missing and this user may not install them; as root, run: $command"
    return 1
  fi
  echo "installing: ${missing[*]}"
  if ! no_candidate "${missing[@]}" && apt install --no-install-recommends "${missing[@]}"; then
    return 0
  fi
  if apt update && apt install --no-install-recommends "${missing[@]}"; then
    return 0
  fi
  install_error="apt could not install ${missing[*]} (its words are above). Needed: Debian 12 and its package server"
  install_error+=" (is the machine online?). By hand, as root: $command"
  return 1
}

# Stops unless everything that a build needs is here, installed by us or by somebody else.
need_build_tools() {
  install_packages "$@" && return 0
  local tool lacking=()
  for tool in meson ninja g++ pkg-config; do
    command -v "$tool" >/dev/null || lacking+=("$tool")
  done
  [ ${#lacking[@]} -eq 0 ] || stop "not found: ${lacking[*]}" "$install_error"
  if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    stop "packages are missing: $(missing_packages "$@" | tr '\n' ' ')" "$install_error"
  fi
  echo "note: $install_error"
}

# True when FOLDER was configured for the tree at this place, by us or by hand.
configured_here() {
  [ -f "$1/build.ninja" ] || return 1
  case "$(cat "$1/configured-for" 2>/dev/null)" in "$PWD"$'\n'*) return 0 ;; esac
  grep -qF "\"source\": \"$PWD\"" "$1/meson-info/meson-info.json"
}

# configure_build FOLDER [meson setup options]: configures once for these options; starts afresh when the tree was moved or
# set-up was cut.
configure_build() {
  local folder=$1 how=()
  shift
  local wanted="$PWD"$'\n'"options: $*"
  if configured_here "$folder"; then
    [ "$(cat "$folder/configured-for" 2>/dev/null)" != "$wanted" ] || return 0
    how=(--reconfigure)
  elif [ -d "$folder/meson-private" ]; then
    how=(--wipe)
  fi
  meson setup "$folder" "${how[@]}" "$@" </dev/null && printf '%s' "$wanted" >"$folder/configured-for"
}

# Prints what "meson install" takes of those that FOLDER builds.
installed_targets() {
  meson introspect "$1" --installed | tr '{,' '\n\n' | sed -n "s|^ *\"$PWD/$1/\([^\"]*\)\": .*|\1|p" | grep -v '^meson-private/'
}

compile() {  # compile FOLDER [TARGET...]
  local folder=$1
  shift
  ninja -C "$folder" -j "$(nproc)" "$@" </dev/null
}
