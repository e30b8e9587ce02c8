#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shared memory under each of Yama's rules for who may read whose memory (kernel.yama.ptrace_scope 0 to 3). In a guest only:
# the last one stays until the next boot. usage: yama.sh SHM_TESTS CONFORMANCE_SHM. Exit code 77: this is no guest.
set -eu

scope=/proc/sys/kernel/yama/ptrace_scope
[ -d /run/rdma-vm ] || { echo "skipped: the rules would stay after the test"; exit 77; }
[ -w $scope ] || { echo "skipped: this kernel has no Yama"; exit 77; }
for rule in 0 1 2 3; do
  echo $rule >$scope
  [ "$(cat $scope)" = $rule ] || { echo "FAILED: rule $rule can not be set"; exit 1; }
  "$1" 'Yama*'
  # Two processes of a user; large works of ordinary memory, which are read where they lie if that may be.
  setpriv --reuid 54321 --clear-groups "$2" 'G6: a stopped*'
  echo "rule $rule: ok"
done
