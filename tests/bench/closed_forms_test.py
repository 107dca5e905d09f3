"""The closed forms and statistics with which benchmarks compare, by examples that are worked out by hand."""

import unittest

import context  # noqa: F401
import collectives
import gs_sgd
import hybrid
import images
import language
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


class Hybrid(unittest.TestCase):
    FC6 = hybrid.Layer(25088, 25088 * 4096)  # of VGG-A on 128 workers, 512 samples: the table of docs/parallelism.md

    def test_the_limit_is_that_of_the_balance_equations(self):
        megabytes = [hybrid.balance(self.FC6, 512, groups, ranks=128) / 1e6 for groups in (128, 1, 4)]
        self.assertEqual([round(one, 2) for one in megabytes], [822.08, 102.76, 51.38])

    def test_members_send_all_but_their_own_part(self):
        layer = hybrid.Layer(10, 100)
        # Two groups of two: of 2 * 4 * 10 * 6 bytes of activations a half, of 2 * 4 * 50 of weights a half.
        self.assertEqual([hybrid.sent_by(layer, 12, groups) for groups in (1, 2, 4)], [2 * 4 * 10 * 12 * 3 / 4, 240 + 200, 2 * 4 * 100 * 3 / 4])
        self.assertAlmostEqual(hybrid.sent_by(self.FC6, 512, 4, ranks=128) / hybrid.balance(self.FC6, 512, 4, ranks=128), (31 / 32 + 3 / 4) / 2)

    def test_the_batch_decides_how_many_groups_are_best(self):
        layers = [hybrid.Layer(512, 512 * 512)] * 3
        self.assertEqual([hybrid.best_groups(layers, batch) for batch in (128, 512, 2048)], [1, 2, 4])
        self.assertEqual([hybrid.best_groups(layers, batch, hybrid.balance) for batch in (128, 2048)], [1, 4])

    def test_spans_belong_to_layers(self):
        def span(name, unit, size, rank=0):
            return {"ph": "X", "pid": rank, "name": name, "args": {"unit": unit, "bytes": size}}

        piece, summand = hybrid.PIECE_UNIT, hybrid.SUMMAND_UNIT
        spans = [span("all_gather ring", piece + 1, 80), span("all_gather ring", piece + 1, 80), span("reduce_scatter ring", piece + 2, 80), span("all_gather ring", piece + 7, 20),
                 span("all_reduce ring", "bucket 3 (fc3.weight)", 100), span("update", "bucket 3 (fc3.weight)", 100), span("all_reduce ring", 0x40000000, 8),
                 span("all_gather ring", piece, 80, rank=1)]
        sent = hybrid.sent_by_layer({"traceEvents": spans}, 2, 1)  # the second gather is of a test
        self.assertEqual({layer: size for layer, size in sent.items() if size}, {"fc3": 40 + 40 + 100, hybrid.BEHIND: 10})
        # The first two are one piece, so the gather behind it is for the third; summands count from the second's bias.
        spans = [span("all_gather ring", piece, 80), span("all_reduce ring", summand + 1, 40), span("all_reduce ring", summand + 2, 60)]
        sent = hybrid.sent_by_layer({"traceEvents": spans}, 2, 1, ("fc1", "fc2"))
        self.assertEqual({layer: size for layer, size in sent.items() if size}, {"fc3": 40, "fc2": 40, "fc1": 60})


class Shares(unittest.TestCase):
    def test_waiting_is_a_share_of_the_step(self):
        # 128 samples a step, 1,280 samples a second: 100 ms.
        self.assertAlmostEqual(images.waited({"samples_per_second": 1280, "data_wait_ms": 3}), 0.03)

    def test_bits_per_byte_are_apart_either_way(self):
        self.assertAlmostEqual(language.apart(2.02, 2), 0.01)
        self.assertAlmostEqual(language.apart(1.98, 2), 0.01)

    def test_what_is_made_of_pictures_is_the_same_on_both_sides(self):
        self.assertEqual(images.LARGE.transforms(), "[{name: random_crop, padding: 0, size: 224}, horizontal_flip, "
                                                    "{name: normalise, mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225]}]")


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
