#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs rondel-bench under rondelrun with tiny sweeps: bench_smoke.py RONDELRUN RONDEL_BENCH."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

RONDELRUN, BENCH = "", ""
TINY = ["-b", "4", "-e", "4K", "-f", "32", "-n", "3", "-w", "1"]
COLLECTIVES = ["allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "gather", "scatter", "alltoall",
               "sendrecv", "pingpong"]
WRONG_DATA, USAGE = 3, 2


def run(*command, **more):
    return subprocess.run(command, text=True, capture_output=True, timeout=60, check=False, **more)


def bench(ranks, *arguments, **more):
    return run(RONDELRUN, "-np", str(ranks), BENCH, *arguments, **more)


def alone(*arguments, **more):
    return run(BENCH, *arguments, **more)


TAG = re.compile(r"\[\d+\](<std(out|err)>:)? ?")


def lines_of(text):
    """Lines without the launcher's rank tag."""
    return [TAG.sub("", line, count=1) for line in text.splitlines()]


def told(text):
    """What the ranks themselves have said, without the launcher's report."""
    return "\n".join(line for line in text.splitlines() if TAG.match(line))


def rows_of(text):
    return [line.split() for line in lines_of(text) if line.strip() and not line.strip().startswith("#")]


class Smoke(unittest.TestCase):
    def check_rows(self, done, sizes):
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        rows = rows_of(done.stdout)
        self.assertEqual([int(row[0]) for row in rows], sizes, done.stdout)
        for row in rows:
            self.assertEqual(len(row), 13, row)
            self.assertEqual(row[8], "0", row)
            self.assertIn(row[12], ("0", "N/A"), row)
            self.assertGreater(float(row[5]), 0, row)

    def test_every_collective_with_two_and_four_ranks(self):
        for ranks in (2, 4):
            for collective in COLLECTIVES:
                with self.subTest(collective=collective, ranks=ranks):
                    dealt = collective in ("reduce_scatter", "allgather", "gather", "scatter", "alltoall")
                    self.check_rows(bench(ranks, collective, *TINY), [4 * ranks if dealt else 4, 128, 4096])

    def test_roots_other_than_the_first(self):
        for collective in ("broadcast", "reduce", "gather", "scatter"):
            with self.subTest(collective=collective):
                done = bench(3, collective, "-b", "3K", "-e", "3K", "-n", "2", "-r", "2")
                self.check_rows(done, [3072])
                self.assertEqual(rows_of(done.stdout)[0][4], "2")

    def test_types_and_operators(self):
        for dtype, op in (("bfloat16", "avg"), ("half", "sum"), ("int8", "prod"), ("int64", "bit_xor"), ("bool", "max"),
                          ("double", "min"), ("float32", "average")):
            with self.subTest(type=dtype, op=op):
                self.check_rows(bench(2, "allreduce", "-b", "4K", "-e", "4K", "-n", "2", "-d", dtype, "-o", op), [4096])

    def test_barrier_has_a_time_and_no_size(self):
        done = bench(4, "barrier", "-n", "5")
        self.assertEqual(done.returncode, 0, done.stderr)
        (row,) = rows_of(done.stdout)
        self.assertEqual(row[:5], ["0", "0", "none", "none", "-1"])
        self.assertGreater(float(row[5]), 0)

    def test_one_spoiled_element_ends_with_wrong_data(self):
        for ranks, collective in ((2, "allreduce"), (4, "alltoall")):
            with self.subTest(collective=collective):
                done = bench(ranks, collective, "-b", "4K", "-e", "4K", "-n", "2", "--corrupt")
                self.assertEqual(done.returncode, WRONG_DATA, done.stdout)
                self.assertEqual(rows_of(done.stdout)[0][8], str(ranks))
                self.assertIn("FAILED", done.stdout)

    def test_checks_can_be_switched_off(self):
        done = bench(2, "allreduce", "-b", "4", "-e", "4", "-n", "2", "-c", "0", "--corrupt")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(rows_of(done.stdout)[0][8], "N/A")
        self.assertIn("NOT CHECKED", done.stdout)

    def test_json_holds_the_run_and_is_never_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            for _ in range(2):
                done = bench(2, "allreduce", *TINY, "-J", path)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["out.json", "out.json.1"])
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    report = json.load(file)
                self.assertEqual(report["ranks"], 2)
                self.assertEqual(len(report["hosts"]), 2)
                self.assertEqual([row["size_bytes"] for row in report["results"]], [4, 128, 4096])
                for row in report["results"]:
                    for place in ("out_of_place", "in_place"):
                        self.assertEqual(row[place]["wrong"], 0)
                        self.assertEqual(row[place]["iterations"], 3)
                        self.assertLessEqual(row[place]["min_us"], row[place]["median_us"])
                        self.assertLessEqual(row[place]["median_us"], row[place]["p95_us"])

    def test_wrong_usage_is_told_once(self):
        for arguments, text in ((["alreduce"], "did you mean allreduce?"), (["allreduce", "-b", "4Q"], '"4Q"'),
                                (["allreduce", "--fast"], "--fast"), (["broadcast", "-r", "7"], "ranks 0 to 1"),
                                (["allreduce", "-o", "bit_or"], "bitwise operators"), ([], "collective is required")):
            with self.subTest(arguments=arguments):
                done = bench(2, *arguments)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertEqual(told(done.stdout + done.stderr).count(text), 1, done.stdout + done.stderr)

    def test_one_rank_needs_no_launcher(self):
        self.check_rows(alone("allreduce", *TINY), [4, 128, 4096])
        done = alone("sendrecv", *TINY)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("needs 2 ranks", done.stderr)

    def test_a_json_file_that_cannot_be_made(self):
        done = bench(2, "allreduce", *TINY, "-J", "/proc/none/out.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/none/out.json", done.stderr)

    def test_a_full_disk_is_an_error_and_leaves_no_half_file(self):
        def no_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

        with tempfile.TemporaryDirectory() as folder:
            done = alone("allreduce", *TINY, "--memory", "plain", "-J", os.path.join(folder, "out.json"),
                         preexec_fn=no_room)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("out.json: File too large", done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_a_table_that_cannot_be_printed_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([BENCH, "allreduce", *TINY], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", done.stderr)


if __name__ == "__main__":
    RONDELRUN, BENCH = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
