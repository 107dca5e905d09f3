"""Tables of docs say what the rows in bench/results say; what is older than its code is marked."""

import importlib.machinery
import importlib.util
import re
import sys
import unittest

from context import BENCH, load_run
import gs_sgd
import simulator
from harness import ledger, tables
from harness.rows import Row, claim


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


# A cell that is a figure: a number with a unit of measuring, or with another one in brackets behind it.
FIGURE = re.compile(r"\**[-+]?\d[\d.,]*( (%|ms|s|us|MB|GB|GB/s|samples/s)|x|%)?\**( \([^)]*\))?")


def loose(text):
    """Lines of tables with figures that no row of the ledger stands behind."""
    outside = re.sub(r"<!-- figures: .*?-->.*?<!-- end of figures -->", "", text, flags=re.DOTALL)
    figures = [[FIGURE.fullmatch(cell.strip()) for cell in line.strip("|").split("|")] for line in outside.splitlines()]
    return [line for line, cells in zip(outside.splitlines(), figures) if line.startswith("|") and any(cell and any(cell.groups()) for cell in cells)]


class Documents(unittest.TestCase):
    def test_a_figure_in_a_table_comes_from_a_row(self):
        for file in sorted({one.file for one in tables.TABLES}):
            with self.subTest(file):
                self.assertEqual(loose(load_figures().contents(file)), [], f"{file}: make it a row of bench/results and a table of bench/harness/tables.py")

    def test_figures_by_hand_are_found_and_words_are_none(self):
        for line in ("| dense | 759 (0.06) | 947 (0.08) |", "| alone | 1.6 % |", "| mlp | 12 ms |", "| **3.0x** |"):
            self.assertEqual(loose(f"{line}\n<!-- figures: a -->\n{line}\n<!-- end of figures -->\n"), [line])
        for line in ("| `int8` | d (1 + 4 / block) | 2 d |", "| 0 | all was well |", "| 4 hosts, 1 Gbit/s | at most 3 times as long |", "a step of 12 ms"):
            self.assertEqual(loose(line), [])

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

    def test_all_goals_that_are_not_reached_are_listed(self):
        found = [Row("step", "alone", ratio=1.2, unit="ms").want("ratio", at_least=1.4), Row("torch", "one of them", ratio=0.9, peer="a loop").want("ratio", at_least=1),
                 claim("torch", "the lowest", [0.9], min, at_least=1, unit="ms"), Row("step", "reached", ratio=1.5).want("ratio", at_least=1.4)]
        lines = tables.made(table("goals not reached"), found, ages(ledger.CURRENT)).splitlines()
        self.assertEqual(lines[2:5], ["| [`step`](benchmarks.md#step) | alone | 1.2 | ratio at least 1.4 |", "| [`torch`](benchmarks.md#torch) | one of them (against a loop) | 0.9 | ratio at least 1 |",
                                      "| [`torch`](benchmarks.md#torch) | the lowest | 0.9 ms | at least 1 |"])
        self.assertEqual(len(lines), 5)
        self.assertEqual(tables.made(table("goals not reached"), found[3:], ages(ledger.CURRENT)), "None.")

    def test_rows_of_a_setting_share_a_line(self):
        cases = [("gTop-k", 4, 40, 1, {}), ("gTop-k", 8, 50, 1, {"bytes": 2_000_000}), ("dense", 4, 80, 0.5, {"bytes": 3_000_000})]
        found = [Row("gs-sgd", name, "simulated", ranks, ratio=ratio, settings={"system": name, "sizes": gs_sgd.SAME_SHARE, "link": "1 Gbit/s", "step_ms": ms, **more})
                 for name, ranks, ms, ratio, more in cases]
        self.assertEqual(tables.rivals(found, lambda row: " †")[2:],
                         ["| 1 Gbit/s | gTop-k † | 40 (1) | 50 (1) | 2 MB |", "| 1 Gbit/s | dense † | 80 (0.5) |  | 3 MB |"])

    def test_steps_of_a_model_share_a_line(self):
        found = [Row("tensor-rpc", f"GRU, {ms} ms, in place", "shared memory", peer="gRPC", ours=10.0 + ms, ratio=2.0, settings={"compute_ms": ms, **more})
                 for ms, more in ((0, {"predicted": 2.5}), (100, {}))]
        self.assertEqual(tables.steps_by_compute(found, lambda row: " †")[0], "| model | side | peer | 0 ms of compute | 100 ms of compute |")
        self.assertEqual(tables.steps_by_compute(found, lambda row: " †")[2:], ["| GRU | in place | gRPC | 10, 2x (2.5x) † | 110, 2x † |"])

    def test_an_exchange_without_a_closed_form_has_no_error(self):
        found = [Row("gs-sgd", kind, "tcp", 4, ours=0.5, settings={"system": "dense", "codecs": kind, "rate": "1gbit", **more})
                 for kind, more in (("real", {}), ("replayed", {"error": 0.015}))]
        self.assertEqual(tables.exchanges(found, lambda row: "")[2:], ["| dense | real | 500 |", "| dense | replayed | 500 (+1.5 %) |"])
        found[1].want("error", at_most=0.01)
        self.assertEqual(tables.exchanges(found, lambda row: "")[3], "| dense | replayed | 500 (+1.5 %, **missed**) |")

    def test_every_simulated_set_and_coarse_rows_have_a_table(self):
        for sizes in gs_sgd.SETS:
            row = Row("gs-sgd", "a", "simulated", settings={"sizes": sizes})
            self.assertEqual(len([one for one in tables.TABLES if one.bench == "gs-sgd" and one.picks(row)]), 1, sizes)
        row = Row("simulator", f"{simulator.ERROR}, late: a-cluster", ranks=8, settings={"worst_per_cent": {"all_reduce tree": 11.0}})
        self.assertEqual([one.name for one in tables.TABLES if one.bench == "simulator" and one.picks(row)], ["coarse"])
        self.assertEqual(tables.coarse([row], lambda row: "")[2:], ["| late | a-cluster | 8 | 11 % |"])

    def test_a_table_goes_between_its_lines(self):
        text = f"a\n{tables.begin_of(table())}\nold\n{tables.END}\nb\n"
        self.assertEqual(tables.replaced(text, table(), "new"), f"a\n{tables.begin_of(table())}\nnew\n{tables.END}\nb\n")
        with self.assertRaises(ValueError):
            tables.replaced("a\n", table(), "new")


if __name__ == "__main__":
    unittest.main()
