#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A device that is not RoCE or InfiniBand is refused with its reason, by the probe and by a job that asks for it: siw, which
# is iWARP in software, in the guest.
# usage: verbs_iwarp.sh RDMA_VM RONDELRUN RONDEL_BENCH. Exit code 77: it can not run here.
set -euo pipefail

rdma_vm=$1 rondelrun=$2 bench=$3
cache=${RDMA_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rdma-vm}
if [ ! -e "$cache/initramfs/mods/siw.ko" ]; then
  echo "skipped: siw has not been built; once, with a minute and 140 MB of Debian's kernel source: rdma-vm --device siw --setup-only"
  exit 77
fi
status=0
said=$("$rdma_vm" --device siw --timeout 120 -- bash -c '
  "$1" --check-build
  echo "a job that asks for it:"
  "$1" -np 2 --transport verbs "$2" allreduce -b 8 -e 8 -n 1 2>&1
  echo "ended with $?"' guest "$rondelrun" "$bench") || status=$?
printf '%s\n' "$said"
if [ "$status" = 125 ]; then
  echo "skipped: no guest can run here (see above)"
  exit 77
fi
grep -q 'verbs.*iWARP' <<<"${said%%a job that asks*}" || { echo "failed: --check-build does not say why"; exit 1; }
grep -q iWARP <<<"${said#*a job that asks}" || { echo "failed: the job does not say why"; exit 1; }
! grep -q '^ended with 0$' <<<"$said" || { echo "failed: the job did something over a device that is not usable"; exit 1; }
