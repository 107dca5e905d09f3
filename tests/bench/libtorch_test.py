"""bench/run torch: which of a peer's runs Taxon's are held against."""
import types
import unittest
import unittest.mock

import context  # noqa: F401
import libtorch
from harness.training import LESSONS, Training, Weights

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


def rows_of(blas, seconds):
    """What comes of runs of which each takes so long. `seconds`: (side, how it learnt its threads) -> of a step."""
    def take_round(session, library, release, weights, work, threads, counts):
        wanted = {("Taxon", "recipe"), *((peer, count) for peer in libtorch.LEAST for count in counts)}
        return {(side, FORMAT, count): training(seconds[side, count]) for side, count in seconds if (side, count) in wanted}

    session = Session(mode="quick", rows=Rows(), peers_only=False)
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


if __name__ == "__main__":
    unittest.main()
