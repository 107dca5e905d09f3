"""tools/nightly: its table of steps, and what it leaves of a step that passed or failed."""

import contextlib
import io
import pathlib
import re
import tempfile
import unittest
from unittest import mock

from program import ROOT, load


class Nightly(unittest.TestCase):
    def setUp(self):
        self.nightly = load("nightly")

    def test_steps_have_names_of_their_own_and_commands_that_are_there(self):
        steps = self.nightly.STEPS
        self.assertEqual(len({step.name for step in steps}), len(steps))
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        for step in steps:
            with self.subTest(step.name):
                self.assertRegex(step.name, "^[a-z0-9-]+$")
                self.assertTrue(step.shows)
                for target in re.findall(r"\bmake ([a-z-]+)", step.command):
                    self.assertIn(target, targets)
                for program in re.findall(r"\b((?:tools|tests|bench)/[\w/.-]+)", step.command):
                    self.assertTrue((ROOT / program).exists(), program)

    def test_what_was_promised_to_run_at_night_does(self):
        commands = {step.name: step.command for step in self.nightly.STEPS}
        self.assertIn("tools/attack", commands["attack"])
        self.assertIn("--minutes 60", commands["attack"])
        parts = [tuple(map(int, part)) for part in re.findall(r"--faults --seeds (\d+)\.\.(\d+)", commands["fault-seeds"])]
        self.assertEqual((parts[0][0], parts[-1][1]), (1, 100_000))
        self.assertEqual([first for first, _ in parts[1:]], [last + 1 for _, last in parts[:-1]])
        self.assertIn("TAXON_LIES=1000", commands["lying-ranks"])

    def run_with(self, steps, *words):
        """Exit code, and the rows that were kept."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "table.md"
            log.write_text("| head |\n")
            with mock.patch.multiple(self.nightly, STEPS=[self.nightly.Step(*step) for step in steps], LOGS=pathlib.Path(folder)), \
                    contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
                code = self.nightly.main(["--log", str(log), *words])
            return code, log.read_text().splitlines()[1:], errors.getvalue()

    def test_each_step_leaves_a_row_and_a_failed_one_stops_no_other(self):
        steps = [("one", "it", "echo begun; echo 'a | b'"), ("two", "it", "false; echo no"), ("three", "it", "true | cat"), ("four", "it", "false | cat", 1)]
        code, rows, errors = self.run_with(steps)
        self.assertEqual(code, 1)
        cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
        self.assertEqual([row[2:4] for row in cells],
                         [["one", "passed"], ["two", "**failed** (1)"], ["three", "passed"], ["four", "**failed** (1)"]])
        self.assertEqual(cells[0][5], "a / b")
        self.assertIn("two failed; see", errors)
        self.assertIn("four failed; see", errors)

    def test_some_steps_alone(self):
        code, rows, _ = self.run_with([("one", "it", "true"), ("two", "it", "true")], "two")
        self.assertEqual((code, len(rows)), (0, 1))
        self.assertIn("| two |", rows[0])

    def test_a_step_that_is_unknown_runs_nothing(self):
        code, rows, errors = self.run_with([("one", "it", "true")], "one", "tow")
        self.assertEqual((code, rows), (2, []))
        self.assertIn("no step tow", errors)


if __name__ == "__main__":
    unittest.main()
