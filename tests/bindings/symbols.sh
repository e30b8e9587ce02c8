#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# librondel.so lets out the functions of its headers and nothing else, in one version node, under its soname.
# symbols.sh LIBRARY HEADER...
set -eu
library=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" {print $3}' | sort >"$work/exported"
sed -n 's/^RONDEL_API.*[ *]\(rondel_[a-z0-9_]*\)(.*/\1@@RONDEL_0.1/p' "$@" | sort >"$work/declared"
[ "$(wc -l <"$work/declared")" -gt 40 ] || { echo "found no declarations in $*"; exit 1; }
if ! diff -u "$work/declared" "$work/exported"; then
  echo "the library (+) does not export what the headers (-) declare"
  exit 1
fi
! readelf -d "$library" | grep -q 'NEEDED.*ibverbs' || { echo "it can not be loaded where there is no libibverbs"; exit 1; }
readelf -d "$library" | grep -q 'SONAME.*\[librondel\.so\.0\]' || { echo "the soname is not librondel.so.0"; exit 1; }
echo "$(wc -l <"$work/exported") functions"
