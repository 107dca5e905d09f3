"""Every benchmark of bench/run can be started: its module is the one in bench/, not one of Python's own of the same name; it names the harness that
measures, and what several rows come to is told from rows alone."""

import importlib
import os
import pathlib
import unittest

from context import BENCH, load_run
import codec_speed
import simulator
from harness.build import ROOT
from harness.rows import CLAIM, Row, judge

PARTS = ("PACKAGES", "PATHS", "targets", "run", "summary")
LAB = ("Cluster", "NoCluster", "Lab", "two_hosts")  # what a module that uses the test cluster has of the harness


class Table(unittest.TestCase):
    def test_names_lead_to_modules_of_the_folder(self):
        table = load_run().BENCHMARKS
        self.assertGreater(len(table), 10)
        for name, (module, _) in table.items():
            with self.subTest(name):
                loaded = importlib.import_module(module)
                self.assertEqual(pathlib.Path(loaded.__file__).parent, BENCH)
                self.assertEqual([part for part in PARTS if not hasattr(loaded, part)], [])
                self.assertEqual([path for path in loaded.PATHS if not os.path.exists(os.path.join(ROOT, path))], [])

    def test_paths_name_the_harness_and_the_test_cluster_where_it_is_used(self):
        users = []
        for name, (module, _) in load_run().BENCHMARKS.items():
            with self.subTest(name):
                loaded = importlib.import_module(module)
                self.assertTrue(any(path == "bench" or path.startswith("bench/harness") for path in loaded.PATHS))
                if any(hasattr(loaded, part) for part in LAB):
                    users.append(name)
                    self.assertIn("tools/lab", loaded.PATHS)
        self.assertGreater(len(users), 10)


class Claims(unittest.TestCase):
    """An interrupted run goes on with its rows, without its goals."""

    def judged(self, module, row):
        return {one.case.removeprefix(CLAIM): (one.ours, one.met) for one in judge(module.claims, [row] if row else [])}

    def test_a_selection_is_judged_by_its_row(self):
        case = codec_speed.case(*codec_speed.SELECTION)
        for over, met in ((2.5, True), (3.5, False)):
            self.assertEqual(self.judged(codec_speed, Row("codecs", case, settings={"over_two_reads": over})), {f"{case}: over reading the values twice": (over, met)})
        self.assertEqual(self.judged(codec_speed, None), {})

    def test_memory_of_a_large_job_is_judged_by_its_row(self):
        name, ranks, _, most = simulator.LARGE["vgg-ring-128"]
        for peak, met in ((most, True), (most + 1, False)):
            self.assertEqual(self.judged(simulator, Row("simulator", name, "virtual", ranks, settings={"peak_mib": peak})), {f"{name}: memory": (peak, met)})
        self.assertEqual(self.judged(simulator, None), {})


if __name__ == "__main__":
    unittest.main()
