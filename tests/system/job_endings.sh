# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scripts that run jobs and look at how they end. Sourced, after `folder` and `limit_s` are set; sets `failed`.

check() { # LABEL EXIT_STATUS TEXT COMMAND...: it ends so (failed: with any but 0), and says this
  local label=$1 wanted=$2 text=$3
  shift 3
  timeout -k 5 "$limit_s" "$@" >"$folder/out" 2>&1
  local status=$?
  [ "$status" = 0 ] || [ "$wanted" != failed ] || status=failed
  if [ "$status" = "$wanted" ] && grep -q -- "$text" "$folder/out"; then
    echo "$label: as it should be"
  else
    echo "$label: ended with $status (wanted $wanted), or never said \"$text\":"
    cat "$folder/out"
    failed=1
  fi
}
