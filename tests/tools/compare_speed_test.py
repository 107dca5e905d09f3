"""tools/compare-speed: programs are started anew, and a case is worse by what all starts show."""

import contextlib
import io
import itertools
import unittest
from unittest import mock

from program import load


class CompareSpeed(unittest.TestCase):
    def setUp(self):
        self.tool = load("compare-speed")

    def row_of(self, seconds_of_start, starts=3, words=""):
        """Of a part with one case, whose programs take as long as (before, now) of their start."""
        self.begun = 0

        def part(sides):
            before, now = next(seconds)
            self.begun += 1
            yield "a case", {"before": before, "now": now}.__getitem__

        seconds = itertools.cycle(seconds_of_start)
        self.tool.PARTS["part"] = part
        return next(self.tool.measure("part", {"before": None, "now": None}, words, starts, turns=3), None)

    def test_every_start_counts(self):
        row = self.row_of([(1.0, 1.0), (1.0, 2.0), (1.0, 4.0)])
        self.assertEqual(self.begun, 3)
        self.assertEqual(row["turns"], 9)
        self.assertEqual((row["before"], row["now"], row["ratio"]), (1.0, 2.0, 0.5))

    def test_one_program_that_came_to_lie_badly_is_no_verdict(self):
        self.assertFalse(self.row_of([(1.0, 1.0), (1.0, 1.5), (1.5, 1.0)])["worse"])

    def test_a_program_that_is_always_slower_is_worse(self):
        self.assertTrue(self.row_of([(1.0, 1.1), (2.0, 2.2), (1.0, 1.1)])["worse"])
        self.assertFalse(self.row_of([(1.0, 1.005)])["worse"], "within the slack")
        self.assertFalse(self.row_of([(1.1, 1.0)])["worse"])

    def test_one_figure_has_no_spread(self):
        words = ["compare-speed", "before", "now", "--starts", "1", "--turns", "2"]
        said = io.StringIO()
        with mock.patch("sys.argv", words), contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
            self.tool.main()
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("at least 3 turns in all", said.getvalue())

    def test_other_cases_are_left_out(self):
        self.assertIsNone(self.row_of([(1.0, 1.0)], words="another case"))


if __name__ == "__main__":
    unittest.main()
