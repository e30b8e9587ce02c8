#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a folder of its own and builds a plain C program against that, with pkg-config's flags alone.
# install.sh BUILD_FOLDER PREFIX LIBDIR SOURCE
set -eu
build=$1
prefix=$2
libdir=$3
source=$4
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

meson install -C "$build" --no-rebuild --quiet --destdir "$stage"
export PKG_CONFIG_LIBDIR="$stage$prefix/$libdir/pkgconfig"
export PKG_CONFIG_SYSROOT_DIR="$stage"
# shellcheck disable=SC2046
"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror "$source" -o "$stage/program" $(pkg-config --cflags --libs rondel)
LD_LIBRARY_PATH="$stage$prefix/$libdir" "$stage/program"
[ -L "$stage$prefix/$libdir/librondel.so" ] || { echo "librondel.so is no link to the versioned library"; exit 1; }
[ "$(pkg-config --modversion rondel)" != "" ]
