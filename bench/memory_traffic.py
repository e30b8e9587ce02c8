#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the memory traffic of an all-reduce: runs rondel-bench under valgrind's cachegrind on every rank, with a
small simulated last-level cache, and prints how many times its vector a rank reads and writes per call. What an
iteration takes is the difference between two numbers of iterations, so starting and ending do not count. Reads are
lines loaded for reading; writes are lines loaded for writing alone, that is of vectors that are not read too (each
modified line also goes back once). Lines that the kernel moves are not seen: with --memory plain set
RONDEL_ALGORITHM=ring and RONDEL_SHM_PULL=0 to see the ring's."""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

LINE = 64
CACHE = "2097152,16,64"
ITERATIONS = (1, 3)


def misses(arguments, iterations, folder):
    """Read and write misses of the last level, per rank."""
    bench = [os.path.join(arguments.build, "bench", "rondel-bench"), "allreduce", "-b", str(arguments.bytes), "-e",
             str(arguments.bytes), "-n", str(iterations), "-w", "0", "-c", "0", "--memory", arguments.memory]
    counted = ["valgrind", "-q", "--tool=cachegrind", "--cache-sim=yes", "--LL=" + CACHE,
               f"--cachegrind-out-file={folder}/{iterations}.%p"]
    run = subprocess.run([os.path.join(arguments.build, "launcher", "rondelrun"), "-np", str(arguments.np), *counted, *bench],
                         env={"RONDEL_TIMEOUT_S": "600", "RONDEL_START_TIMEOUT_S": "600", **os.environ}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if run.returncode != 0:
        sys.exit(f"memory_traffic: rondelrun ended with {run.returncode}:\n{run.stdout[-2000:]}")
    reads = writes = ranks = 0
    for path in glob.glob(f"{folder}/{iterations}.*"):
        with open(path, encoding="ascii", errors="replace") as counts:
            lines = {line.split(":")[0]: line.split()[1:] for line in counts if line.startswith(("events:", "summary:"))}
        found = dict(zip(lines["events"], map(int, lines["summary"])))
        reads, writes, ranks = reads + found["DLmr"], writes + found["DLmw"], ranks + 1
    if ranks != arguments.np:
        sys.exit(f"memory_traffic: {ranks} of {arguments.np} ranks left counts")
    return reads / ranks, writes / ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("-np", type=int, default=8)
    parser.add_argument("--bytes", type=int, default=8 << 20, help="of the vector; much more than the simulated cache")
    parser.add_argument("--memory", choices=("arena", "plain"), default="arena")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    with tempfile.TemporaryDirectory() as folder:
        few, many = (misses(arguments, iterations, folder) for iterations in ITERATIONS)
    # Each iteration is one call out of place and one in place.
    calls = ITERATIONS[1] - ITERATIONS[0]
    reads, writes = ((many[i] - few[i]) * LINE / calls / arguments.bytes for i in (0, 1))
    print(f"{arguments.np} ranks, {arguments.bytes} bytes, {arguments.memory}: of one call out of place and one in place "
          f"together, vectors loaded for reading {reads:.2f}, for writing alone {writes:.2f}")


if __name__ == "__main__":
    main()
