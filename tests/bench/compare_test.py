#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of bench/peers/compare.py with made-up contenders: compare_test.py COMPARE."""

import sys
import unittest

from scripts import load, printed

COMPARE = None


class Compare(unittest.TestCase):
    def contender(self, name, script):
        return COMPARE.Contender(name, ["sh", "-c", script])

    def compare_with(self, contenders, rounds=3):
        options = type("Options", (), {"rounds": rounds})
        original = COMPARE.contenders_for
        COMPARE.contenders_for = lambda *_: contenders
        try:
            return printed(COMPARE.compare, options, 2, "default")
        finally:
            COMPARE.contenders_for = original

    def test_lines_of_a_peer_give_the_median_of_each_size(self):
        text = "# peer raw ranks 2\n# bytes iterations median_us p95_us min_us\n4 100 5.5 6.0 5.0\n64 10 7.25 9 7\n"
        self.assertEqual(COMPARE.read_lines(text), {4: 5.5, 64: 7.25})

    def test_every_round_of_every_contender_is_kept(self):
        samples, _ = self.compare_with([self.contender("rondel", "echo 4 1 2.0 3 1"), self.contender("raw", "echo 4 1 1.0 3 1")])
        self.assertEqual(COMPARE.by_placement(samples), {"": {"rondel": {4: [2.0] * 3}, "raw": {4: [1.0] * 3}}})

    def test_a_failing_contender_is_dropped_with_its_last_words(self):
        times, text = self.compare_with([self.contender("rondel", "echo 4 1 2.0 3 1"),
                                         self.contender("gloo", "echo no torch >&2; exit 77")])
        self.assertEqual(list(times), ["rondel"])
        self.assertEqual(text, "# SKIPPED gloo: exit code 77: no torch\n")

    def test_a_missing_program_is_dropped_before_the_start(self):
        _, text = self.compare_with([COMPARE.Contender("raw", ["/nowhere/raw_exchange"])])
        self.assertIn("# SKIPPED raw: /nowhere/raw_exchange is not there", text)

    def test_ratios_are_of_medians_and_over_one_where_rondel_is_faster(self):
        times = {"rondel": {4: [2.0, 1.0, 90.0]}, "openmpi": {4: [3.0, 80.0, 1.0], 16: [5.0]}}
        _, text = printed(COMPARE.print_table, 2, "cubic", times, 3)
        rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
        self.assertEqual(rows, [["bytes", "rondel", "openmpi"], ["4", "2.00", "3.00", "(1.50)"], ["16", "-", "5.00"]])

    def test_rounds_are_kept_apart_by_where_the_processors_were(self):
        samples = {"rondel": [({4: 0.2}, 60, 70), ({4: 0.6}, 250, 260), ({4: 0.9}, 61, 250), ({4: 7.0}, 250, None)],
                   "raw": [({4: 0.1}, 60, 75), ({4: 0.5}, 221, 260)]}
        places = COMPARE.by_placement(samples)
        self.assertEqual(places, {"near": {"rondel": {4: [0.2]}, "raw": {4: [0.1]}},
                                  "far": {"rondel": {4: [0.6]}, "raw": {4: [0.5]}}})
        self.assertEqual(COMPARE.describe_place("far", samples, places["far"]),
                         ", processors far (250 ns from flag to flag; 1 to 1 rounds)")

    def test_one_odd_reading_is_no_placement(self):
        samples = {"rondel": [({4: 0.2}, 20, 60), ({4: 0.2}, 61, 60)], "raw": [({4: 0.1}, 58, 60), ({4: 0.1}, 62, 60)]}
        places = COMPARE.by_placement(samples)
        self.assertEqual(places, {"": {"rondel": {4: [0.2] * 2}, "raw": {4: [0.1] * 2}}})
        self.assertEqual(COMPARE.describe_place("", samples, places[""]), " (60 ns from flag to flag)")

    def test_few_rounds_in_one_place_are_not_hidden_by_many_in_another(self):
        rounds = [({4: 0.6}, 258, 262)] * 20
        samples = {"rondel": [*rounds, ({4: 0.2}, 60, 61)], "raw": rounds}
        self.assertEqual(COMPARE.by_placement(samples)["near"]["rondel"], {4: [0.2]})

    def test_peers_are_shown_where_rondel_failed(self):
        samples = {"raw": [({4: 0.1}, None, None)]}
        self.assertEqual(COMPARE.by_placement(samples), {"": {"raw": {4: [0.1]}}})


if __name__ == "__main__":
    COMPARE = load(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
