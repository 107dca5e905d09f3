"""The closed forms and statistics with which benchmarks compare, by examples that are worked out by hand."""

import unittest

import context  # noqa: F401
import collectives
import gs_sgd
import servers
import step
from harness import equal, pairs
from harness.training import Training


class Turns(unittest.TestCase):
    def test_sides_take_turns_in_an_order_that_rotates(self):
        order = []
        figures = pairs.take_turns({name: lambda name=name: order.append(name) or len(order) for name in "abc"}, 3)
        self.assertEqual("".join(order), "abcbcacab")
        self.assertEqual(figures, {"a": [1, 6, 8], "b": [2, 4, 9], "c": [3, 5, 7]})

    def test_ratios_are_of_pairs_and_above_one_where_ours_is_better(self):
        self.assertEqual(pairs.ratio(True, [2, 30, 8], [1, 10, 2])[0], 3)
        self.assertEqual(pairs.ratio(False, [2, 30, 8], [1, 10, 2])[0], 1 / 3)

    def test_spread_is_between_the_quartiles(self):
        self.assertAlmostEqual(pairs.relative_spread([1, 2, 3, 4, 5]), 2 / 3)
        self.assertIsNone(pairs.relative_spread([1]))


class Bytes(unittest.TestCase):
    def test_bus_factor(self):
        self.assertEqual([collectives.bus_factor(n) for n in (2, 4)], [1, 1.5])

    def test_shares_of_servers(self):
        self.assertEqual(servers.Setting(4, 2).shares(), 2)
        self.assertEqual(servers.Setting(2, 4).shares(), 1)
        self.assertEqual(servers.Setting(4, 0).shares(), 1.5)

    def test_a_sketch_of_1000_values(self):
        # 0.02 * 1000 = 20 columns are two lines of 16; 5 rows of them.
        self.assertEqual(gs_sgd.buckets(1000, 0.02, 5), 160)
        sketch = gs_sgd.Sketch(0.02, candidates=4)
        self.assertEqual((sketch.table_bytes(1000), sketch.fetched(1000)), (640, 40))
        # 2 (P-1)/P (table + values) with P = 4: 1.5 * (640 + 160).
        self.assertEqual(sketch.sent(1000, 4), 1200)

    def test_entries_travel_in_lines(self):
        self.assertEqual([gs_sgd.padded(size) for size in (0, 1, 64, 65)], [0, 64, 64, 128])
        # 10 entries of 1000: 40 bytes of places and 40 of values, a line each, behind a head of 32.
        self.assertEqual(gs_sgd.list_bytes(1000, 0.01), 160)


class EqualWork(unittest.TestCase):
    def test_a_step_off_by_more_than_the_tolerance_is_found(self):
        losses = [2.3, 2.2, 2.1]
        self.assertTrue(equal.same(losses, [2.3, 2.2009, 2.1]))
        self.assertFalse(equal.same(losses, [2.3, 2.2011, 2.1]))
        self.assertFalse(equal.same(losses, [2.3, float("nan"), 2.1]))

    def test_fewer_steps_and_none_are_not_the_same(self):
        self.assertFalse(equal.same([2.3, 2.2], [2.3]))
        self.assertFalse(equal.same([], []))

    def test_every_run_counts(self):
        def runs(*losses):
            return [Training(2, 1.0, losses=(loss,), accuracy=0.5) for loss in losses]
        self.assertTrue(step.verified(runs(1.0, 1.0005), runs(1.0, 1.0)))
        self.assertFalse(step.verified(runs(1.0, 1.002), runs(1.0, 1.0)))

    def test_workers_of_a_host_share_its_cores_as_taxon_shares_them(self):
        cores = [2, 3, 5, 7, 11]
        self.assertEqual([equal.share_of_cores(cores, 2, rank) for rank in (0, 1)], [[2, 3], [5, 7, 11]])
        self.assertEqual(equal.share_of_cores([4], 2, 1), [4])

    def test_the_better_format_is_that_of_the_higher_median(self):
        self.assertEqual(equal.better({"contiguous": [1, 9, 2], "channels_last": [3, 3, 3]}, lambda x: x), "channels_last")


if __name__ == "__main__":
    unittest.main()
