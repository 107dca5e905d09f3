"""Every benchmark of bench/run can be started: its module is the one in bench/, not one of Python's own of the same name."""

import importlib
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
PARTS = ("PACKAGES", "targets", "run", "summary")


def benchmarks():
    """The table of bench/run, which is a program without a suffix."""
    loader = importlib.machinery.SourceFileLoader("bench_run", str(BENCH / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_run", loader))
    loader.exec_module(module)
    return module.BENCHMARKS


class Table(unittest.TestCase):
    def test_names_lead_to_modules_of_the_folder(self):
        table = benchmarks()
        self.assertGreater(len(table), 10)
        for name, (module, _) in table.items():
            with self.subTest(name):
                loaded = importlib.import_module(module)
                self.assertEqual(pathlib.Path(loaded.__file__).parent, BENCH)
                self.assertEqual([part for part in PARTS if not hasattr(loaded, part)], [])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
