#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs under a real Slurm of this test's own: munged, slurmctld and two slurmd on loopback ports.
# usage: slurm.sh RONDEL_BENCH RONDELRUN. Exit code 77: Slurm is not installed, or this is not root.
set -uo pipefail

bench=$1 rondelrun=$2 failed=0
PATH=$PATH:/usr/sbin:/sbin
for tool in munged slurmctld slurmd srun sbatch; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool (packages slurm-wlm, munge)"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: Slurm's daemons need root"; exit 77; }

folder=$(mktemp -d)
daemons=()
# shellcheck disable=SC2317 # the trap reaches it
cleanup() {
  local daemon
  for daemon in "${daemons[@]}"; do kill "$daemon" 2>/dev/null; done
  for daemon in "${daemons[@]}"; do wait "$daemon" 2>/dev/null; done
  rm -rf --one-file-system "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

chmod 755 "$folder"
mkdir -m 700 "$folder/munge" "$folder/home"
mkdir -p "$folder"/{state,spool-n1,spool-n2}
head -c 128 /dev/urandom >"$folder/munge/key"
chmod 600 "$folder/munge/key"
chown -R munge: "$folder/munge"

start() { # LOG COMMAND...
  local log=$1
  shift
  "$@" >"$folder/$log" 2>&1 &
  daemons+=($!)
}
free_port() {
  local port
  for ((port = 20000 + RANDOM % 10000; ; port++)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}
give_up() {
  echo "Slurm did not come up:"
  tail -n 5 "$folder"/*.log
  exit 1
}

# As its own user: munged refuses a key that root reads for it. Its socket's folder must be reachable for all.
mkdir -m 755 "$folder/socket"
chown munge: "$folder/socket"
start munged.log setpriv --reuid munge --regid munge --clear-groups munged --foreground --force \
  --key-file="$folder/munge/key" --socket="$folder/socket/munge" --pid-file="$folder/socket/pid" \
  --log-file="$folder/socket/log" --seed-file="$folder/socket/seed"
control_port=$(free_port) port_1=$(free_port) port_2=$(free_port)
cat >"$folder/slurm.conf" <<END
ClusterName=rondel
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$control_port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/socket/munge
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$port_1 CPUs=4
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$port_2 CPUs=4
PartitionName=all Nodes=n[1-2] Default=YES State=UP MaxTime=INFINITE
END
export SLURM_CONF=$folder/slurm.conf
start slurmctld.log slurmctld -D
for node in n1 n2; do start "slurmd-$node.log" slurmd -D -N "$node"; done
for ((tries = 0; ; tries++)); do
  [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && break
  [ "$tries" -lt 300 ] || give_up
  sleep 0.1
done

export HOME=$folder/home
limit_s=90
source "${BASH_SOURCE[0]%/*}/job_endings.sh"

small=(allreduce -b 4 -e 64K -f 16 -n 3)
check "srun on two nodes" 0 'allreduce ranks 4' srun -N2 -n4 "$bench" "${small[@]}"
check "srun on one node" 0 'allreduce ranks 2' srun -N1 -n2 "$bench" "${small[@]}"
if srun --mpi=list 2>&1 | grep -q pmi2; then
  check "srun --mpi=pmi2" 0 'allreduce ranks 4' srun --mpi=pmi2 -N2 -n4 "$bench" "${small[@]}"
else
  echo "skipped: this Slurm has no pmi2"
fi
check "two steps one after the other" 0 'allreduce ranks 3' bash -c \
  'srun -n3 "$@" && srun -n3 "$@"' - "$bench" "${small[@]}"

# Other launchers in a job of Slurm's: their daemons are tasks of a step, their ranks are not.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
inner() { # WHAT LAUNCHER-IN-AN-ALLOCATION LAUNCHER-ON-ONE-HOST
  local what=$1 wide=$2 here=$3
  local ranks_of_4='allreduce ranks 4' ranks_of_3='allreduce ranks 3'
  check "$what in an allocation of one node" 0 "$ranks_of_4" salloc -N1 -n4 sh -c "$wide 4 \"\$@\"" - "$bench" "${small[@]}"
  check "$what in an allocation of two nodes" 0 "$ranks_of_4" salloc -N2 -n4 sh -c "$wide 4 \"\$@\"" - "$bench" "${small[@]}"
  check "$what in a step" 0 "$ranks_of_3" srun -n1 sh -c "$here 3 \"\$@\"" - "$bench" "${small[@]}"
  # Which of the two is the inner one can not be seen here: srun's daemon was not started by the outer one.
  check "srun in a rank of $what" failed 'contradict.*unset' sh -c "$here 1 srun -n3 \"\$@\"" - "$bench" "${small[@]}"
}
if command -v mpiexec.hydra >/dev/null; then
  inner hydra 'mpiexec.hydra -n' 'mpiexec.hydra -launcher fork -rmk user -n'
else
  echo "skipped: no mpiexec.hydra (package mpich)"
fi
if command -v mpirun.openmpi >/dev/null; then
  inner "Open MPI's mpirun" 'mpirun.openmpi -np' 'mpirun.openmpi --oversubscribe --mca ras ^slurm -np'
else
  echo "skipped: no mpirun.openmpi (package openmpi-bin)"
fi
check "rondelrun in a step" 0 'allreduce ranks 3' srun -n1 "$rondelrun" -H localhost:3 "$bench" "${small[@]}"
check "srun in a rank of rondelrun" failed 'inside a rank of rondelrun' "$rondelrun" -np 1 srun -n2 "$bench" "${small[@]}"
# Scripts written for torch export these, whatever they start ranks with.
check "srun with MASTER_ADDR and WORLD_SIZE" 0 'allreduce ranks 4' \
  env MASTER_ADDR=localhost MASTER_PORT=29000 WORLD_SIZE=4 srun -N2 -n4 "$bench" "${small[@]}"
check "srun with an empty MASTER_ADDR" 0 'allreduce ranks 2' env MASTER_ADDR= srun -N2 -n2 "$bench" "${small[@]}"
check "srun with another job's RANK and WORLD_SIZE" failed 'WORLD_SIZE=1.*unset' \
  env RANK=0 WORLD_SIZE=1 srun -n2 "$bench" "${small[@]}"

check "rondelrun takes the nodes of its allocation" 0 'rank  *host.*' salloc -N2 -n5 "$rondelrun" --dry-run true
check "rondelrun places as many ranks as there are tasks" 0 '^ *4  *n2 ' salloc -N2 -n5 "$rondelrun" --dry-run true
# As torchrun does on each node: ranks of its own inside a task.
# shellcheck disable=SC2016 # the task expands it
check "torchrun's ranks in a step" 0 'allreduce ranks 2' env MASTER_ADDR=localhost MASTER_PORT="$(free_port)" WORLD_SIZE=2 \
  LOCAL_WORLD_SIZE=2 srun -n1 sh -c 'RANK=1 LOCAL_RANK=1 "$@" & RANK=0 LOCAL_RANK=0 "$@"; wait' - "$bench" "${small[@]}"
# shellcheck disable=SC2016 # the task expands it
check "rondelrun in a step of fewer nodes takes that step's" 0 '^ *1  *n[12]  *1 of 2' \
  salloc -N2 -n4 srun -N1 -n2 sh -c '[ "$SLURM_PROCID" != 0 ] || exec "$@"' - "$rondelrun" --dry-run true
check "rondelrun takes all groups of a heterogeneous job" 0 '^ *2  *n2  *1 of 2' salloc -n1 : -n2 "$rondelrun" --dry-run true
printf '#!/bin/sh\nexec "%s" allreduce -b 4 -e 4 -n 3\n' "$bench" >"$folder/batch"
check "what a batch script starts by itself is one process" 0 'Submitted\|^$' \
  sbatch --wait -n4 -o "$folder/batch.out" "$folder/batch"
grep -q 'allreduce ranks 1' "$folder/batch.out" || { echo "the batch script's process waited for others:"; cat "$folder/batch.out"; failed=1; }
exit "$failed"
