#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program that needs an RDMA device: here where there is one, else in a guest with two devices of Soft-RoCE.
# usage: verbs_in_guest.sh RDMA_VM PROGRAM [ARG...]. Exit code 77: neither is possible here. Programs with a sanitizer in
# them need more of GUEST_MIB and GUEST_SECONDS.
set -u

rdma_vm=$1
shift
"$@"
status=$?
[ "$status" = 77 ] || exit "$status"
[ -e /etc/debian_version ] || { echo "skipped: the guest is made of Debian's packages"; exit 77; }
"$rdma_vm" --devices 2 --timeout "${GUEST_SECONDS:-240}" --mem "${GUEST_MIB:-1024}" -- "$@"
status=$?
[ "$status" = 125 ] || exit "$status"
echo "skipped: no guest with an RDMA device can run here (see above)"
exit 77
