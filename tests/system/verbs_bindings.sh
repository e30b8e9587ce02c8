#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of the C interface whose ranks are processes, over an RDMA device. usage: verbs_bindings.sh RONDELRUN BINDINGS_TEST
# CASES. Exit code 77: no device here.
set -eu

state=$("$1" --check-build | grep "^verbs ")
case $state in *' usable') ;; *) echo "$state"; exit 77 ;; esac
RONDEL_TRANSPORT=verbs exec "$2" "$3"
