"""Tables of README and docs say what the rows in bench/results say; what is older than its code is marked."""

import importlib.machinery
import importlib.util
import sys
import unittest

from context import BENCH, load_run
from harness import ledger, tables
from harness.rows import Row


def load_figures():
    loader = importlib.machinery.SourceFileLoader("bench_figures", str(BENCH / "figures"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_figures", loader))
    sys.modules["bench_figures"] = module
    loader.exec_module(module)
    return module


def rows(commit="aaaa"):
    run = {"commit": commit, "mode": "full", "cores": 2, "cpu": "a processor", "date": "2026-01-02"}
    return [Row("step", "cnn, the better of each", ranks=2, bytes=2**20, ours=3.0, unit="samples/s", peer="DDP", theirs=2.0, ratio=1.5, settings={"run": run})]


def table(name="step"):
    return next(one for one in tables.TABLES if one.name == name)


def ages(age):
    return tables.Ages({name: () for name in load_run().BENCHMARKS}, lambda commit, paths: age)


class Documents(unittest.TestCase):
    def test_tables_are_those_of_the_rows(self):
        figures = load_figures()
        for file, (now, then) in figures.pages(tables.Ages(tables.paths_of(load_run().BENCHMARKS))).items():
            with self.subTest(file):
                self.assertEqual(tables.without_marks(now), tables.without_marks(then), f"{file}: run bench/figures")

    def test_kept_rows_are_verified(self):
        for bench in load_run().BENCHMARKS:
            for row in ledger.read(bench):
                self.assertNotEqual(row.verified, False, f"{bench}: {row.case}")
                self.assertTrue(row.settings["run"].get("commit"), f"{bench}: {row.case} has no commit")


class Made(unittest.TestCase):
    def test_a_figure_of_older_code_is_marked(self):
        self.assertNotIn("†", tables.made(table(), rows(), ages(ledger.CURRENT)))
        old = tables.made(table(), rows(), ages(ledger.OLDER))
        self.assertIn("cnn, the better of each † |", old)
        self.assertIn(tables.MEANINGS[ledger.OLDER], old)

    def test_a_history_that_is_cut_off_is_said(self):
        self.assertIn(tables.MEANINGS[ledger.UNKNOWN], tables.made(table(), rows(), ages(ledger.UNKNOWN)))

    def test_marks_alone_are_no_difference_and_figures_are(self):
        current, old = (tables.made(table(), rows(), ages(age)) for age in (ledger.CURRENT, ledger.OLDER))
        self.assertEqual(tables.without_marks(current), tables.without_marks(old))
        other = rows()
        other[0].ours = 3.1
        self.assertNotEqual(tables.without_marks(current), tables.without_marks(tables.made(table(), other, ages(ledger.CURRENT))))

    def test_without_rows_it_says_how_to_get_them(self):
        self.assertIn("bench/run step --full --record", tables.made(table(), [], ages(ledger.CURRENT)))

    def test_a_missed_goal_is_seen(self):
        missed = rows()
        missed[0].want("ratio", at_least=2)
        self.assertIn("ratio at least 2: **missed**", tables.made(table(), missed, ages(ledger.CURRENT)))

    def test_a_table_goes_between_its_lines(self):
        text = f"a\n{tables.begin_of(table())}\nold\n{tables.END}\nb\n"
        self.assertEqual(tables.replaced(text, table(), "new"), f"a\n{tables.begin_of(table())}\nnew\n{tables.END}\nb\n")
        with self.assertRaises(ValueError):
            tables.replaced("a\n", table(), "new")


if __name__ == "__main__":
    unittest.main()
