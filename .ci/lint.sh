# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Format and lint steps of check. Sourced after setup.sh and report.sh.

source_files() {  # tracked and new C and C++ files, or all of them where there is no git
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard -- '*.cc' '*.h' '*.c' | xargs -0 -r ls -d 2>/dev/null || true
  else
    find lib transports ring fusion launcher bindings tests bench docs -name '*.cc' -o -name '*.h' -o -name '*.c' 2>/dev/null
  fi
}

check_format() {
  if ! command -v clang-format-14 >/dev/null; then
    skip "clang-format" "clang-format-14 is not installed"
    return 0
  fi
  local files
  mapfile -t files < <(source_files)
  step "clang-format of ${#files[@]} files" clang-format-14 --dry-run -Werror "${files[@]}" ||
    echo "  fix: clang-format-14 -i on the files above"
}

# run_tidy FOLDER FILE [OPTION...]. The analyzer's shallow mode follows fewer paths; the deep one doubles the time, and has
# found nothing more here.
run_tidy() {
  local folder=$1 file=$2
  shift 2
  clang-tidy-14 --quiet -p "$folder" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Xclang \
    --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=mode=shallow "$@" "$file" 2> >(grep -v ' warnings\? generated\.$' >&2)
}

# tidy_group FOLDER "GROUP<tab>FILE...": all of a group at once, or one by one where their names collide.
tidy_group() {
  local folder=$1 members file status=0 said
  IFS=$'\t' read -ra members <<<"$2"
  said=$(run_tidy "$folder/tidy-groups" "${members[0]}" --checks=-bugprone-suspicious-include \
    --extra-arg=-Xclang --extra-arg=-analyzer-opt-analyze-headers 2>&1) && return 0
  if ! grep -q 'clang-diagnostic-' <<<"$said"; then
    printf '%s\n' "$said"
    return 1
  fi
  for file in "${members[@]:1}"; do run_tidy "$folder" "$file" || status=1; done
  return "$status"
}

# tidy FOLDER FILE...: clang-tidy on those that FOLDER compiles, in groups, two at a time.
tidy() {
  local folder=$1 groups
  shift
  groups=$(python3 .ci/tidy_groups.py "$folder" "$folder/tidy-groups" "$@") || return 1
  [ -n "$groups" ] || return 0
  export -f run_tidy tidy_group
  tr '\n' '\0' <<<"$groups" | xargs -0 -P "$(nproc)" -I{} bash -c 'tidy_group "$1" "$2"' tidy "$folder" {}
}

# The quick form: what differs from the main branch, and the newest commit; at most eight files.
lint_changed() {
  if ! command -v clang-tidy-14 >/dev/null; then
    skip "clang-tidy" "clang-tidy-14 is not installed"
    return 0
  fi
  local files base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || true)
  [ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD 2>/dev/null)" ] || base=HEAD~1
  mapfile -t files < <({ git diff --name-only --diff-filter=d "$base" -- '*.cc' ':!tests' 2>/dev/null || true; } | head -n 8)
  if [ ${#files[@]} -eq 0 ]; then
    echo "clang-tidy: no source of the product changed (./check --full looks at all of them)"
    return 0
  fi
  step "clang-tidy of ${#files[@]} changed files" tidy build "${files[@]}" || true
}

# Catch2's macros are most of what it finds in tests, at several seconds a file.
lint_everything() {  # lint_everything FOLDER
  if ! command -v clang-tidy-14 >/dev/null; then
    skip "clang-tidy" "clang-tidy-14 is not installed"
    return 0
  fi
  local files
  mapfile -t files < <(source_files | grep '\.cc$' | grep -v '^tests/')
  step "clang-tidy of all product sources" tidy "$1" "${files[@]}" || true
}
