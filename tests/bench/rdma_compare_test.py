#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of bench/peers/rdma_compare.py without a device: rdma_compare_test.py RDMA_COMPARE."""

import socket
import sys
import unittest

from scripts import load, printed

COMPARE = None


def shown(rounds):
    return printed(COMPARE.show, rounds)[1]


class RdmaCompare(unittest.TestCase):
    def test_bars_name_lines_of_the_table(self):
        names = [contender.name for contender in COMPARE.CONTENDERS]
        self.assertEqual(len(names), len(set(names)))
        for mine, theirs, _ in COMPARE.BARS:
            self.assertIn(mine, names)
            self.assertIn(theirs, names)

    def test_rates_are_to_be_high_and_times_low_by_the_median_of_the_rounds(self):
        bandwidth, broadcast = "ib_write_bw 1 MiB", "broadcast 1 MiB"
        self.assertIn("= 0.90 (0.20 to 0.95), asked for at least 0.8: kept",
                      shown([{bandwidth: 100, broadcast: mine} for mine in (20, 90, 95)]))
        self.assertIn("asked for at least 0.8: missed", shown([{bandwidth: 100, broadcast: 79}]))
        latency, trip = "ib_write_lat 8 B", "half a round trip of 8 B"
        self.assertIn("asked for at most 1.5: kept", shown([{latency: 10, trip: 15}]))
        self.assertIn("asked for at most 1.5: missed", shown([{latency: 10, trip: 15.1}]))

    def test_rates_are_in_mib(self):
        self.assertAlmostEqual(COMPARE.rate_of(1 << 20)(10_000), 100)

    def test_a_listener_is_seen_in_the_kernels_table(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            COMPARE.await_listener(server.getsockname()[1])


if __name__ == "__main__":
    COMPARE = load(sys.argv.pop(1))
    unittest.main()
