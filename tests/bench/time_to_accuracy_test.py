"""Times to an accuracy: from what is timed of a run to the whole of it, and what makes a timed run one of those that were learnt."""

import unittest

import context  # noqa: F401
import time_to_accuracy as bench

PERIOD = 3200
# The first half has a warm-up.
TURN = [{"samples": PERIOD * (i + 1), "seconds": seconds, "accuracy/test": 0.5 + i / 100} for i, seconds in enumerate((9.0, 17.0, 21.0, 25.0))]


def race(tests=TURN, parameters=bench.PARAMETERS, first_loss=2.3):
    return {"tests": tests, "parameters": parameters, "first_loss": first_loss}


class Seconds(unittest.TestCase):
    def test_what_was_timed_counts_as_measured(self):
        self.assertEqual([bench.seconds_at(test["samples"], TURN) for test in TURN], [9, 17, 21, 25])

    def test_the_rest_goes_on_as_the_second_half(self):
        self.assertEqual(bench.seconds_per_sample(TURN), 4 / PERIOD)
        self.assertEqual(bench.seconds_at(10 * PERIOD, TURN), 25 + 6 * 4)

    def test_two_tests_are_enough(self):
        self.assertEqual(bench.seconds_per_sample(TURN[:2]), 8 / PERIOD)

    def test_presets_that_meet_now_and_then_have_whole_periods_in_the_second_half(self):
        steps = bench.GOALS["full"].timed / 2 / bench.BATCH
        self.assertEqual(steps % 50, 0)  # diloco-int8's


class Same(unittest.TestCase):
    def test_tests_of_a_turn_are_those_of_the_whole_run(self):
        whole = race([*TURN, {"samples": 5 * PERIOD, "seconds": 1.0, "accuracy/test": 0.9}])
        self.assertTrue(bench.is_the_same(race(), whole))
        other = [*TURN[:-1], TURN[-1] | {"accuracy/test": 0.5301}]
        self.assertFalse(bench.is_the_same(race(other), whole))
        self.assertFalse(bench.is_the_same(race(TURN[:1]), whole))
        self.assertFalse(bench.is_the_same(race(parameters=1), whole))
        self.assertFalse(bench.is_the_same(race(first_loss=2.4), whole))

    def test_a_turn_that_goes_beyond_what_was_learnt_is_another(self):
        self.assertFalse(bench.is_the_same(race(), race(TURN[:-1])))


if __name__ == "__main__":
    unittest.main()
