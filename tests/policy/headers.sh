#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles headers alone: headers.sh ROOT COMPILER... Those with a source of the same name are left out: that source
# includes them first (the words policy sees to it), so the build has compiled them alone already. First shows that it can
# fail, on a header that lacks an include.
set -eu
root=$1
shift

compile_alone() {  # compile_alone FOLDER HEADER_LIST COMPILER...: prints the headers that do not stand alone
  folder=$1
  list=$2
  shift 2
  export folder
  # shellcheck disable=SC2016
  xargs -P "$(nproc)" -I HEADER sh -c '
    header=$1
    shift
    "$@" -std=c++20 -Wall -Wextra -fsyntax-only -I "$folder" -I "$folder/bindings/c/include" -include "$header" -x c++ /dev/null ||
      echo "not self-contained: $header"' alone HEADER "$@" <"$list"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#pragma once\n#include <vector>\ninline std::vector<int> f() { return {}; }\n' >"$work/good.h"
printf '#pragma once\ninline std::vector<int> f() { return {}; }\n' >"$work/bad.h"
printf 'good.h\nbad.h\n' >"$work/list"
if [ "$(compile_alone "$work" "$work/list" "$@" 2>/dev/null)" != "not self-contained: bad.h" ]; then
  echo "self-test failed: the header without its include was not found, or the good one was refused"
  exit 1
fi

cd "$root"
for top in lib transports ring fusion launcher bindings tests bench; do
  [ ! -d "$top" ] || find "$top" -name '*.h'
done | while read -r header; do
  [ -f "${header%.h}.cc" ] || echo "$header"
done >"$work/list"
# What needs a library's headers is compiled where they are.
printf '#include <infiniband/verbs.h>\n' >"$work/verbs.cc"
"$@" -fsyntax-only "$work/verbs.cc" 2>/dev/null || sed -i '/verbs/d' "$work/list"
[ "$(wc -l <"$work/list")" -gt 10 ] || { echo "found no headers under $root"; exit 1; }
compile_alone "$root" "$work/list" "$@" >"$work/found"
cat "$work/found"
echo "$(wc -l <"$work/list") headers compiled alone"
[ ! -s "$work/found" ]
