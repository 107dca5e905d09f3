"""bench/run torch: which of a peer's runs Taxon's are held against."""
import functools
import math
import random
import statistics
import types
import unittest
import unittest.mock

import context  # noqa: F401
import libtorch
from harness.training import LESSONS, Training, Weights, Work

MKL, OPENBLAS = "libtorch_cpu.so Intel(R) oneAPI Math Kernel Library Version 2024.2", "openblas-openmp/libblas.so.3 OpenBLAS 0.3.21"
MODEL, THREADS = "gpt", 2
FORMAT = LESSONS[MODEL].formats[0]


def training(step):
    return Training(1, step, losses=(1.0, 0.5), parameters=LESSONS[MODEL].parameters, model=MODEL)


class Rows(list):
    add = list.append

    def has(self, row):
        return False


class Session(types.SimpleNamespace):
    build_dir = ""

    def with_libtorch(self, release):
        return self


def rows_of(blas, seconds, mode="quick", noise=lambda: 1, peers_only=False):
    """What comes of runs of which each takes so long. `seconds`: (side, how it learnt its threads) -> of a step, by which `noise` multiplies them."""
    def take_round(session, library, release, weights, work, threads, counts, number):
        wanted = {*([] if peers_only else [("Taxon", "recipe")]), *((peer, count) for peer in libtorch.LEAST for count in counts)}
        return {(side, FORMAT, count): training(seconds[side, count] * noise()) for side, count in seconds if (side, count) in wanted}

    session = Session(mode=mode, rows=Rows(), peers_only=peers_only)
    facts = {"libtorch": "2.15.0", "BLAS": blas, "oneDNN": "3.0"}
    with unittest.mock.patch.object(libtorch.build, "version_of", return_value=facts), unittest.mock.patch.object(libtorch, "take_round", take_round), \
            unittest.mock.patch.object(Weights, "__enter__", return_value=""):
        libtorch.run_case(session, "2.15", MODEL, THREADS)
    return {row.peer: row for row in session.rows if not row.case.endswith(libtorch.BEST)}


SECONDS = {("Taxon", "recipe"): 0.10, (libtorch.CPP, "OMP_NUM_THREADS"): 0.11, (libtorch.CPP, "set_num_threads"): 0.09,
           (libtorch.PYTHON, "OMP_NUM_THREADS"): 0.12, (libtorch.PYTHON, "set_num_threads"): 0.15}


class HowThreadsAreLearnt(unittest.TestCase):
    def test_both_ways_only_where_they_differ(self):
        ways = list(libtorch.COUNTS)
        self.assertEqual(libtorch.counts_for({"BLAS": MKL}, 2), ways)
        self.assertEqual(libtorch.counts_for({"BLAS": MKL}, 1), ways[:1])
        self.assertEqual(libtorch.counts_for({"BLAS": OPENBLAS}, 2), ways[:1])

    def test_each_peer_has_its_faster_way(self):
        rows = rows_of(MKL, SECONDS)
        self.assertAlmostEqual(rows[libtorch.CPP].ratio, 0.9)
        self.assertEqual(rows[libtorch.CPP].settings["threads_by"], "set_num_threads")
        self.assertFalse(rows[libtorch.CPP].met)
        self.assertAlmostEqual(rows[libtorch.PYTHON].ratio, 1.2)
        self.assertEqual(rows[libtorch.PYTHON].settings["threads_by"], "OMP_NUM_THREADS")
        self.assertTrue(rows[libtorch.PYTHON].met)

    def test_one_way_is_enough_without_mkl(self):
        rows = rows_of(OPENBLAS, SECONDS)
        self.assertAlmostEqual(rows[libtorch.CPP].ratio, 1.1)
        self.assertEqual(rows[libtorch.CPP].settings["threads_by"], "OMP_NUM_THREADS")


class Order(unittest.TestCase):
    def test_each_round_begins_the_sides_in_an_order_of_its_own(self):
        orders = []

        def together(runs, seconds):
            orders.append(list(runs))
            return {name: training(1) for name in runs}, dict.fromkeys(runs, 1)

        session = Session(peers_only=False, plant="")
        with unittest.mock.patch.object(libtorch.slices, "together", together):
            for number in range(300):
                taken = libtorch.take_round(session, None, "", "", Work(1, 0, 1, 0, MODEL), THREADS, list(libtorch.COUNTS), number)
        self.assertEqual(set(taken), set(orders[0]))
        for name in taken:
            first = sum(order[0] == name for order in orders)
            self.assertLess(abs(first - len(orders) / len(taken)), 30)  # four standard deviations


class PeersOnly(unittest.TestCase):
    def test_no_row_has_a_ratio(self):
        row = rows_of(MKL, SECONDS, mode="full", peers_only=True)[libtorch.CPP]
        self.assertEqual((row.ours, row.ratio), (None, None))
        self.assertAlmostEqual(row.theirs, 90)


class Rounds(unittest.TestCase):
    """A machine that is quiet needs few."""

    def setUp(self):
        self.least = libtorch.STEPS[MODEL]["full"][1]

    def taken(self, mode, deviation, seconds=SECONDS):
        rows = rows_of(OPENBLAS, seconds, mode, functools.partial(random.Random(1).gauss, 1, deviation))
        return rows[libtorch.CPP].settings["pairs"]

    def test_few_of_a_quiet_machine(self):
        self.assertEqual(self.taken("full", 0.001), self.least)

    def test_more_of_a_restless_one(self):
        few, more = self.taken("full", 0.01), self.taken("full", 0.02)
        self.assertLess(self.least, few)
        self.assertLess(few, more)
        self.assertEqual(self.taken("full", 0.2), libtorch.MOST_ROUNDS)

    def test_more_where_the_goal_is_in_doubt(self):
        doubtful = SECONDS | {("Taxon", "recipe"): SECONDS[libtorch.CPP, "OMP_NUM_THREADS"] / libtorch.LEAST[libtorch.CPP]}
        self.assertEqual(self.taken("full", 0.001, SECONDS | {("Taxon", "recipe"): 0.115}), self.least)
        self.assertLess(self.least, self.taken("full", 0.001, doubtful))

    def test_others_than_full_runs_take_what_they_say(self):
        self.assertEqual(self.taken("quick", 0.2), libtorch.STEPS[MODEL]["quick"][1])

    def test_the_error_of_a_median(self):
        draw = random.Random(1)
        medians = [statistics.median(draw.gauss(1, 0.01) for _ in range(25)) for _ in range(2000)]
        estimates = [libtorch.median_error([draw.gauss(1, 0.01) for _ in range(25)]) for _ in range(500)]
        self.assertAlmostEqual(statistics.median(estimates), statistics.stdev(medians), delta=0.0003)
        self.assertEqual(libtorch.median_error([1.0]), math.inf)


if __name__ == "__main__":
    unittest.main()
