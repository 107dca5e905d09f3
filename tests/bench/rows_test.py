"""Rows: goals that can be missed, stores that go on where they were interrupted, exit codes, and the tree's ledger."""

import glob
import importlib
import json
import os
import re
import statistics
import tempfile
import unittest
from unittest import mock

from context import load_run  # isort: skip
import slow_links
import time_to_accuracy
from harness import ledger
from harness.build import ROOT
from harness.rows import Row, RowStore, claim

run = load_run()
KIND = {"bench": "step", "mode": "full", "commit": "0123456789", "peers_only": False, "only": ""}


def row(case="a", **members):
    return Row("step", case, ranks=2, peer="DDP", **members)


class Goals(unittest.TestCase):
    def test_a_goal_is_met_at_its_limit_and_missed_below(self):
        self.assertTrue(row(ratio=1.4).want("ratio", at_least=1.4).met)
        self.assertFalse(row(ratio=1.39).want("ratio", at_least=1.4).met)
        self.assertTrue(row(ours=1.0).want("ours", at_most=1).met)
        self.assertFalse(row(ours=1.01).want("ours", at_most=1).met)

    def test_a_figure_that_is_missing_or_no_number_misses_its_goal(self):
        self.assertFalse(row().want("ratio", at_least=1).met)
        self.assertFalse(row(ratio=float("nan")).want("ratio", at_least=1).met)
        self.assertFalse(row(settings={}).want("lacks", at_most=1).met)

    def test_a_setting_can_have_a_goal_from_both_sides(self):
        one = row(settings={"error": -0.2}).want("error", at_least=-0.1, at_most=0.1)
        self.assertEqual((one.goal, one.met), ("error at least -0.1 and at most 0.1", False))

    def test_the_figure_that_a_goal_is_about(self):
        self.assertEqual(row(of_bound=0.8).want("of_bound", at_least=0.9).wanted_figure(), 0.8)
        self.assertEqual(row(settings={"error": -0.2}).want("error", at_least=-0.1, at_most=0.1).wanted_figure(), -0.2)

    def test_a_claim_is_about_all_of_its_figures(self):
        one = claim("step", "lowest", [3, 1, None, 2], min, at_least=2)
        self.assertEqual((one.ours, one.met, one.settings["figures"]), (1, False, 3))
        self.assertTrue(claim("step", "median", [1, 3, 5], statistics.median, at_least=3).met)
        self.assertIsNone(claim("step", "nobody", [None], min, at_least=2))


class ExitCodes(unittest.TestCase):
    def test_wrong_before_missed_before_well(self):
        well, missed, wrong = row(verified=True, met=True), row(verified=True, met=False), row(verified=False, met=True)
        self.assertEqual(run.exit_code([well, row()]), 0)
        self.assertEqual(run.exit_code([well, missed]), 4)
        self.assertEqual(run.exit_code([missed, wrong]), 3)


class Stores(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.state = os.path.join(self.folder.name, "state")

    def test_an_interrupted_run_goes_on_and_another_does_not(self):
        RowStore(KIND, self.state).add(row(ours=1.0))
        with open(self.state, "a") as file:
            file.write('{"bench": "step", "ca')  # cut short
        again = RowStore(KIND, self.state)
        self.assertTrue(again.has(row()))
        self.assertFalse(again.has(row("b")))
        self.assertFalse(RowStore(KIND | {"commit": "other"}, self.state).has(row()))

    def test_what_was_wrong_is_measured_again_and_goals_of_several_are_judged_again(self):
        store = RowStore(KIND, self.state)
        for one in (row("wrong", verified=False), row("well", verified=True), claim("step", "least", [1], min, at_least=2)):
            store.add(one)
        self.assertEqual([one.case for one in RowStore(KIND, self.state).rows], ["well"])

    def test_of_code_that_nobody_knows_nothing_goes_on(self):
        for commit in (None, "0123456789-dirty"):
            RowStore(KIND | {"commit": commit}, self.state).add(row(ours=1.0))
            self.assertFalse(RowStore(KIND | {"commit": commit}, self.state).has(row()))

    def test_a_row_that_is_measured_twice_is_there_once(self):
        for _ in range(2):
            store = RowStore(KIND, self.state)
            for ours in (1.0, 2.0):
                store.add(row(ours=ours))
            self.assertEqual([one.ours for one in store.rows], [2.0])

    def test_what_is_left_out_needs_nothing_done(self):
        store = RowStore(KIND, only=("lab",))
        self.assertTrue(store.has(row("one host")))
        self.assertFalse(store.has(row("lab, 4 hosts")))

    def test_every_row_says_what_run_it_is_of_and_smoke_runs_judge_nothing(self):
        store = RowStore(KIND, more={"date": "2026-01-02"}, judges=False)
        store.add(row(ratio=1.0).want("ratio", at_least=2))
        self.assertEqual(store.rows[0].settings["run"], KIND | {"date": "2026-01-02"})
        self.assertIsNone(store.rows[0].met)


class Ledger(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def kept(self):
        return [(one.case, one.ours) for one in ledger.read("step", self.folder)]

    def rows(self, run_of=None, **ours):
        return [row(case, ours=value, verified=True, settings={"run": run_of or KIND}) for case, value in ours.items()]

    def test_a_part_replaces_its_rows_alone_and_a_whole_run_everything(self):
        ledger.keep("step", self.rows(a=1, b=2, c=3), False, folder=self.folder)
        ledger.keep("step", self.rows(b=20, d=4), True, folder=self.folder)
        self.assertEqual(self.kept(), [("a", 1), ("b", 20), ("c", 3), ("d", 4)])
        ledger.keep("step", self.rows(a=5), False, folder=self.folder)
        self.assertEqual(self.kept(), [("a", 5)])

    def test_goals_of_several_rows_are_judged_by_all_that_are_kept(self):
        def claims(rows):
            return [claim("step", "least", [one.ours for one in rows], min, at_least=2), claim("step", "nobody", [], min, at_least=2)]

        def judged():
            return [(one.ours, one.met) for one in ledger.read("step", self.folder) if one.goal]

        ledger.keep("step", self.rows(a=1, b=3), False, claims, self.folder)
        self.assertEqual(judged(), [(1, False)])
        ledger.keep("step", self.rows(b=4), True, claims, self.folder)
        self.assertEqual(judged(), [(1, False)])
        ledger.keep("step", self.rows(a=2), True, claims, self.folder)
        self.assertEqual(judged(), [(2, True)])

    def two_commits(self):
        older, newer = (ledger.git("rev-parse", revision).stdout.strip() for revision in ("HEAD~1", "HEAD"))
        if not older or older == "HEAD~1":
            self.skipTest("no history")
        return older, newer

    def test_what_is_said_of_rows_of_several_runs_is_of_the_oldest_code(self):
        older, newer = self.two_commits()
        for commits in ((older, newer), (newer, older)):
            kept = [one for name, commit in zip("ab", commits) for one in self.rows(KIND | {"commit": commit}, **{name: 1})]
            self.assertEqual(ledger.oldest_run(kept)["commit"], older)
        self.assertEqual(ledger.oldest_run(self.rows(KIND | {"commit": "unknown"}, a=1) + self.rows(KIND | {"commit": newer}, b=1))["commit"], "unknown")

    def test_goals_are_no_older_than_the_rows_that_are_kept(self):
        older, newer = self.two_commits()

        def claims(rows):
            return [claim("step", "least", [one.ours for one in rows], min, at_least=2)]

        for name in "ab":
            ledger.keep("step", self.rows(KIND | {"commit": older}, a=1, b=3), False, claims, self.folder)
            ledger.keep("step", self.rows(KIND | {"commit": newer}, **{name: 2}), True, claims, self.folder)
            self.assertEqual([one.settings["run"]["commit"] for one in ledger.read("step", self.folder) if one.goal], [older])
            other = {"a": "b", "b": "a"}[name]
            ledger.keep("step", self.rows(KIND | {"commit": newer}, **{other: 2}), True, claims, self.folder)
            self.assertEqual([one.settings["run"]["commit"] for one in ledger.read("step", self.folder) if one.goal], [newer])

    def test_rows_without_a_whole_known_verified_run_are_refused(self):
        wrong = self.rows(a=1)
        wrong[0].verified = False
        for rows in (self.rows(KIND | {"mode": "quick"}, a=1), self.rows(KIND | {"commit": "0123456789-dirty"}, a=1), self.rows(KIND | {"commit": None}, a=1),
                     self.rows(KIND | {"peers_only": True}, a=1), wrong):
            with self.assertRaises(ledger.NotKept):
                ledger.keep("step", rows, False, folder=self.folder)
        with self.assertRaises(ledger.NotKept):
            ledger.keep("step", [], False, folder=self.folder)
        self.assertEqual(self.kept(), [])

    def test_what_is_kept_is_one_row_a_line(self):
        ledger.keep("step", self.rows(a=1, b=2), False, folder=self.folder)
        with open(ledger.path_of("step", self.folder)) as file:
            lines = file.read().splitlines()
        self.assertEqual([json.loads(line.rstrip(","))["case"] for line in lines[1:-1]], ["a", "b"])

    def test_a_commit_that_the_history_lacks_has_no_age(self):
        self.assertEqual(ledger.age("0000000000", ["src"]), ledger.UNKNOWN)
        self.assertEqual(ledger.age(None, ["src"]), ledger.UNKNOWN)

    def test_the_ledgers_own_code_measures_nothing(self):
        with mock.patch.object(ledger, "git") as git:
            git.return_value.returncode = 0
            ledger.age("0123456789", ["bench/harness"])
        self.assertIn(":(exclude)bench/harness/tables.py", git.call_args.args)
        for excluded in ledger.UNMEASURED:
            self.assertTrue(os.path.exists(os.path.join(ROOT, excluded.removeprefix(":(exclude)"))), excluded)

    def test_the_planner_is_measured_by_who_names_it(self):
        self.assertIn(":(exclude)src/planner", ledger.measured(["src"]))
        self.assertNotIn(":(exclude)src/planner", ledger.measured(["src", "src/planner"]))

    def test_who_simulates_names_the_planner(self):
        for path in glob.glob(os.path.join(ROOT, "bench", "*.py")):
            with open(path) as file:
                simulates = re.search(r'\bTwin\b|"simulate"', file.read())
            if simulates:
                module = importlib.import_module(os.path.basename(path).removesuffix(".py"))
                self.assertIn(ledger.PLANNER, module.PATHS, path)


class NeverArrived(unittest.TestCase):
    """A side that did not come to the target has no figure, and that is judged."""

    def test_time_to_accuracy(self):
        dense = Row("time-to-accuracy", "dense", theirs=9.0, settings={"rate": "1gbit"})
        hook = Row("time-to-accuracy", "hook", theirs=6.0, settings={"rate": "1gbit"})
        never = Row("time-to-accuracy", "preset", theirs=9.0, settings={"rate": "1gbit", "step_ms": {}})
        judged = [one for one in time_to_accuracy.claims([dense, hook, never]) if one]
        self.assertEqual([(one.ours, one.met) for one in judged], [(0, False), (0, False)])

    def test_slow_links(self):
        def sooner(**figures):
            return slow_links.claims([Row("slow-links", "diloco", **{"settings": {"sooner_than_horovod": None}, **figures})])[0]

        self.assertEqual((sooner().ours, sooner().met), (0, False))
        self.assertEqual(sooner(ours=2.0, settings={"sooner_than_horovod": 3.0}).ours, 3.0)  # DDP never did
        self.assertIsNone(sooner(ours=2.0))  # nobody else did


if __name__ == "__main__":
    unittest.main()
