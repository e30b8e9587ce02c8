#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets rondel-bench over verbs against perftest and against itself over TCP, on Soft-RoCE in the guest of
tests/support/rdma-vm: every program in every round, the order rotated from round to round. Prints the median over the
rounds, the range, and what Rondel reaches of perftest, round by round. On a host that has an RDMA device of its own,
--here runs the same without a guest."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOST_SECONDS = 120  # for one run of one program
MIB = 1 << 20


class Perftest:
    """Two processes of one of perftest's programs. `value` turns the client's line of results into a number."""

    def __init__(self, name, unit, program, arguments, value):
        self.name, self.unit, self.value = name, unit, value
        self.command = [program, "-F", *arguments]

    def run(self, options, port):
        command = [*self.command, "-d", options.device, "-x", str(options.gid_index), "-p", str(port)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                await_listener(port)
                done = subprocess.run([*command, "127.0.0.1"], text=True, capture_output=True, timeout=MOST_SECONDS,
                                      check=True)
                server.wait(MOST_SECONDS)
            finally:
                if server.poll() is None:
                    server.kill()
        rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\s*\d+\s+\d+\s", line)]
        return self.value([float(word) for word in rows[-1]])


class Bench:
    """Two ranks of rondel-bench, one size. `value` turns the median time in microseconds into a number."""

    def __init__(self, name, unit, transport, arguments, value=lambda us: us):
        self.name, self.unit, self.transport, self.arguments, self.value = name, unit, transport, arguments, value

    def run(self, options, _port):
        build = os.path.abspath(options.build)
        environment = {**os.environ, "RONDEL_TRANSPORT": self.transport, "RONDEL_VERBS_DEVICE": options.device}
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            subprocess.run([os.path.join(build, "launcher", "rondelrun"), "-np", "2",
                            os.path.join(build, "bench", "rondel-bench"), *self.arguments, "-c", "0", "-J", report],
                           env=environment, capture_output=True, timeout=MOST_SECONDS, check=True)
            with open(report, encoding="utf-8") as file:
                row = json.load(file)["results"][0]
        return self.value((row.get("in_place") or row["out_of_place"])["median_us"])


def of_size(size, iterations):
    return ["-b", str(size), "-e", str(size), "-n", str(iterations), "-w", str(max(iterations // 10, 3))]


def rate_of(size):
    return lambda us: size / MIB / us * 1e6


# perftest says MB/s for MiB/s; -b adds up both directions; its rows: size, iterations, ... by program.
CONTENDERS = [
    Perftest("ib_write_bw 1 MiB", "MiB/s", "ib_write_bw", ["-s", str(MIB), "-n", "200"], lambda row: row[3]),
    Bench("broadcast 1 MiB", "MiB/s", "verbs", ["broadcast", *of_size(MIB, 200)], rate_of(MIB)),
    Perftest("ib_write_bw -b 4 MiB, each way", "MiB/s", "ib_write_bw", ["-b", "-s", str(4 * MIB), "-n", "50"],
             lambda row: row[3] / 2),
    Bench("all-reduce 4 MiB, each way", "MiB/s", "verbs", ["allreduce", *of_size(4 * MIB, 50)], rate_of(4 * MIB)),
    Bench("the same over TCP", "MiB/s", "tcp", ["allreduce", *of_size(4 * MIB, 50)], rate_of(4 * MIB)),
    Perftest("ib_write_lat 8 B", "us", "ib_write_lat", ["-s", "8", "-n", "3000"], lambda row: row[4]),
    Perftest("ib_write_bw 8 B, one at a time", "us", "ib_write_bw", ["-s", "8", "-t", "1", "-n", "3000"],
             lambda row: 1 / row[4]),
    Bench("half a round trip of 8 B", "us", "verbs", ["pingpong", *of_size(8, 2000)], lambda us: us / 2),
    Bench("exchange 8 B (all-to-all)", "us", "verbs", ["alltoall", *of_size(16, 2000)]),
    Bench("all-reduce 8 B", "us", "verbs", ["allreduce", *of_size(8, 2000)]),
]
# What is asked of Rondel: (Rondel's, perftest's, limit); at least that share of a rate, at most so many times a latency.
BARS = [
    ("broadcast 1 MiB", "ib_write_bw 1 MiB", 0.8),
    ("all-reduce 4 MiB, each way", "ib_write_bw -b 4 MiB, each way", 0.7),
    ("all-reduce 4 MiB, each way", "the same over TCP", 1.0),
    ("half a round trip of 8 B", "ib_write_lat 8 B", 1.5),
    ("exchange 8 B (all-to-all)", "ib_write_lat 8 B", 1.5),
    ("exchange 8 B (all-to-all)", "ib_write_bw 8 B, one at a time", 1.5),
]


def await_listener(port):
    wanted = f":{port:04X}"
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table, encoding="ascii") as file:
                if any(row.split()[1].endswith(wanted) and row.split()[3] == "0A" for row in list(file)[1:]):
                    return
        time.sleep(0.02)
    raise TimeoutError(f"nobody listens on port {port}")


def measure(options):
    rounds = []
    chosen = [c for c in CONTENDERS if not options.only or c.name in options.only]
    for number in range(options.rounds):
        found = {}
        for index in range(len(chosen)):
            contender = chosen[(index + number) % len(chosen)]
            try:
                found[contender.name] = contender.run(options, 18600 + number * len(chosen) + index)
            except subprocess.CalledProcessError as error:
                words = ((error.stderr or b"") or (error.stdout or b""))[-400:]
                sys.exit(f"{contender.name}: exit code {error.returncode}: {words}")
        rounds.append(found)
        print(f"round {number + 1}: " + ", ".join(f"{found[c.name]:.1f}" for c in chosen), file=sys.stderr, flush=True)
    return rounds


def show(rounds):
    print(f"{'what':34} {'median':>9} {'least':>9} {'most':>9}")
    for contender in CONTENDERS:
        values = [found[contender.name] for found in rounds if contender.name in found]
        if values:
            print(f"{contender.name:34} {statistics.median(values):9.1f} {min(values):9.1f} {max(values):9.1f} "
                  f"{contender.unit}")
    units = {contender.name: contender.unit for contender in CONTENDERS}
    for mine, theirs, limit in BARS:
        ratios = [found[mine] / found[theirs] for found in rounds if mine in found and theirs in found]
        if ratios:
            ratio = statistics.median(ratios)
            kept = ratio <= limit if units[mine] == "us" else ratio >= limit
            print(f"{mine} : {theirs} = {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}), asked for "
                  f"{'at most' if units[mine] == 'us' else 'at least'} {limit}: {'kept' if kept else 'missed'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where the programs were built")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these lines of the table")
    parser.add_argument("--device", default="rxe0")
    parser.add_argument("--gid-index", type=int, default=1)
    parser.add_argument("--here", action="store_true", help="on this host's device, without a guest")
    options = parser.parse_args()
    if not options.here:
        seconds = 60 + 60 * options.rounds
        inside = [sys.executable, os.path.abspath(__file__), "--here", *sys.argv[1:]]
        sys.exit(subprocess.run([os.path.join(ROOT, "tests", "support", "rdma-vm"), "--timeout", str(seconds), "--",
                                 *inside], check=False).returncode)
    show(measure(options))


if __name__ == "__main__":
    main()
