"""Every benchmark of bench/run can be started: its module is the one in bench/, not one of Python's own of the same name."""

import importlib
import os
import pathlib
import unittest

from context import BENCH, load_run
from harness.build import ROOT

PARTS = ("PACKAGES", "PATHS", "targets", "run", "summary")


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


if __name__ == "__main__":
    unittest.main()
