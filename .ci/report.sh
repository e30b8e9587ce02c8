# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# How check counts: every lint step, policy check and Meson test is one test that passed, failed or was skipped. Sourced.

passed=0
failures=()
excerpts=()  # what the failed ones said, repeated at the end: the rest of a log may be out of reach
skips=()
timings=()
runner=()  # words put before `meson test`
phase_name=
phase_start=0

pass() { passed=$((passed + 1)); }
fail() { failures+=("$1") && printf 'FAILED  %s\n' "$1"; }
skip() { skips+=("$1: $2") && printf 'skipped %s: %s\n' "$1" "$2"; }

phase() {  # phase "name": ends the phase before it
  end_phase
  phase_name=$1
  phase_start=$SECONDS
  printf '\n== %s\n' "$1"
}

end_phase() {
  [ -z "$phase_name" ] || timings+=("$(printf '%5d s  %s' $((SECONDS - phase_start)) "$phase_name")")
  phase_name=
}

# step NAME COMMAND...: one test; its output is kept in build/check-logs and shown when it fails.
step() {
  local name=$1
  local log="build/check-logs/${name//[^A-Za-z0-9._-]/_}.log"
  shift
  mkdir -p build/check-logs
  [ ! -t 1 ] || printf '...     %s\r' "$name"
  if "$@" >"$log" 2>&1 </dev/null; then
    pass
    printf 'ok      %s\n' "$name"
    return 0
  fi
  tail -n 60 "$log"
  fail "$name (whole output: $log)"
  excerpts+=("$name:"$'\n'"$(excerpt <"$log")")
  return 1
}

# Prints "result<TAB>name<TAB>last line of output" for every line of a Meson testlog.json. Quotes inside JSON strings are
# escaped, so the unescaped patterns below only match the fields themselves.
read_testlog() {
  awk '
    function field(key,   start, rest) {
      start = index($0, "\"" key "\": \"")
      if (!start) return ""
      rest = substr($0, start + length(key) + 5)
      match(rest, /^([^"\\]|\\.)*/)
      return substr(rest, 1, RLENGTH)
    }
    function last_line(text,   lines, n) {
      gsub(/\\t/, " ", text)
      n = split(text, lines, /\\n/)
      while (n > 0 && lines[n] ~ /^ *$/) n--
      text = n > 0 ? lines[n] : ""
      gsub(/\\"/, "\"", text)
      return text
    }
    {
      said = last_line(field("stdout"))
      if (said == "") said = last_line(field("stderr"))
      printf "%s\t%s\t%s\n", field("result"), field("name"), said
    }' "$1"
}

# The lines of an output that say what went wrong with those around them, or else its last ones.
excerpt() {
  local text marks='FAILED|error:|ERROR: |WARNING: ThreadSanitizer|terminate called'
  text=$(cat)
  if grep -qE "$marks" <<<"$text"; then
    grep -E -B 8 -A 16 "$marks" <<<"$text" | head -n 60
  else
    tail -n 20 <<<"$text"
  fi | cut -c 1-300
}

# output_of NAME LOG: what one test printed, from Meson's readable log.
output_of() {
  awk -v name="test: *(.* / )?$1\$" '
    /^=+ [0-9]+\/[0-9]+ =+$/ { inside = 0 }
    $0 ~ "^" name { inside = 1 }
    inside' "$2"
}

# meson_tests LABEL FOLDER [meson test options]: runs them and counts each.
meson_tests() {
  local label=$1 folder=$2 before=${#failures[@]} counted=0 code=0
  local logbase="check-${label//[^A-Za-z0-9]/-}"
  shift 2
  rm -f "$folder/meson-logs/$logbase.json"
  "${runner[@]}" meson test -C "$folder" --no-rebuild --print-errorlogs --logbase "$logbase" "$@" </dev/null || code=$?
  local result name said
  while IFS=$'\t' read -r result name said; do
    counted=$((counted + 1))
    case $result in
      OK | EXPECTEDFAIL) pass ;;
      SKIP) skip "$label: $name" "${said:-it gave no reason}" ;;
      *)
        fail "$label: $name ($result)"
        excerpts+=("$label: $name:"$'\n'"$(output_of "${name##* / }" "$folder/meson-logs/$logbase.txt" | excerpt)")
        ;;
    esac
  done < <([ ! -f "$folder/meson-logs/$logbase.json" ] || read_testlog "$folder/meson-logs/$logbase.json")
  if [ "$code" -ne 0 ] && [ ${#failures[@]} -eq "$before" ]; then
    fail "$label: meson test ended with exit code $code and blamed no test"
  fi
  [ "$counted" -gt 0 ] || fail "$label: no test ran"
}

# The last thing check prints, whatever happened before.
report() {
  end_phase
  printf '\n== time\n'
  [ ${#timings[@]} -eq 0 ] || printf '%s\n' "${timings[@]}"
  printf '%5d s  in all\n' "$SECONDS"
  if [ ${#skips[@]} -gt 0 ]; then
    printf '\n== skipped on this machine\n'
    printf '  %s\n' "${skips[@]}"
  fi
  if [ ${#failures[@]} -gt 0 ]; then
    printf '\n== failed\n'
    printf '  %s\n' "${failures[@]}"
    [ ${#excerpts[@]} -eq 0 ] || printf '\n-- %s\n' "${excerpts[@]}"
  fi
  printf '\n%d passed, %d failed' "$passed" "${#failures[@]}"
  [ ${#skips[@]} -eq 0 ] || printf ', %d skipped' "${#skips[@]}"
  printf '\n'
}
