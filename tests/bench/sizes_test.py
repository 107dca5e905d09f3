"""Closed forms of bench/gs_sgd.py beside the sizes that wires have, and how bench/choice.py chooses."""

import types
import unittest
from unittest import mock

import context  # noqa: F401
import choice
import gs_sgd
from harness.rows import RowStore


class Sizes(unittest.TestCase):
    def test_packed_entries_take_what_the_codec_says(self):
        # tests/codec/packed_test.cc has the same: 1000 of 20000 values.
        for bits, codes in ((2, 256), (4, 512), (8, 1024)):
            self.assertEqual(gs_sgd.packed_bytes(20000, 0.05, bits), 2 * 32 + 1088 + codes + 64)

    def test_lists_of_parts_are_flat_in_the_number_of_ranks(self):
        parts, gathered = gs_sgd.Largest("split_top_k", 0.01), gs_sgd.Largest("top_k", 0.01)
        self.assertLess(parts.sent(10**7, 64), 1.4 * parts.sent(10**7, 4))
        self.assertGreater(gathered.sent(10**7, 64), 20 * gathered.sent(10**7, 4))

    def test_factors_of_a_matrix_are_counted_and_vectors_travel_as_they_are(self):
        self.assertIn([64, 3, 3, 3], gs_sgd.matrices())
        sent = gs_sgd.power_sgd(2).sent(0, 2)
        self.assertGreater(sent, 4 * 2 * (512 + 512 * 9) * 8)
        self.assertLess(sent, 4 * 14_719_818 / 20)

    def test_a_global_sketch_does_not_know_the_model(self):
        system = gs_sgd.global_system()
        self.assertEqual(system.sent(10**6, 8), system.sent(10**9, 8))


class Resuming(unittest.TestCase):
    def test_a_finished_setting_is_not_simulated_again(self):
        seen = gs_sgd.Seen(1.0, gs_sgd.Largest("gtop_k", gs_sgd.DENSITY).sent(10**6, 4), 1, 0, 10**6)
        session = types.SimpleNamespace(rows=RowStore({}))
        with mock.patch.object(gs_sgd, "measure", return_value=seen) as measure:
            for _ in range(2):
                gs_sgd.run_setting(session, "1 Gbit/s", 4, gs_sgd.SAME_SHARE)
        self.assertEqual(measure.call_count, len(gs_sgd.SYSTEMS))


class Choice(unittest.TestCase):
    def line(self, accuracy, error=0.001, failure=""):
        return {"accuracy": str(accuracy), "accuracy_error": str(error), "failure": failure}

    def test_the_best_rate_is_found_and_how_far_the_own_one_is_behind(self):
        best, lacks, error = choice.chosen({0.5: self.line(0.88), 1: self.line(0.87), 2: self.line(0.1, failure="diverged")})
        self.assertEqual(best, 0.5)
        self.assertAlmostEqual(lacks, 1)
        self.assertGreater(error, 0.1)

    def test_the_own_rate_lacks_nothing_where_it_is_the_best(self):
        self.assertEqual(choice.chosen({0.5: self.line(0.8), 1: self.line(0.87)}), (1, 0.0, 0.0))

    def test_a_recipe_that_fails_is_not_judged(self):
        self.assertIsNone(choice.chosen({0.5: self.line(0.8), 1: self.line(0, failure="x")}))

    def test_each_recipe_has_a_rate(self):
        for recipe in choice.accuracies.systems():
            self.assertGreater(choice.rate_of(recipe), 0)


if __name__ == "__main__":
    unittest.main()
