"""Processes beside a benchmark's own: they last as long as they are needed, and must."""

import sys
import tempfile
import unittest

import context  # noqa: F401
from harness.group import background
from harness.side import SideFailed


class Background(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def beside(self, program):
        return background("beside", [[sys.executable, "-c", program]], [{}], self.folder)

    def test_processes_end_with_the_block(self):
        with self.beside("import time; time.sleep(600)") as processes:
            self.assertIsNone(processes[0].poll())
        self.assertIsNotNone(processes[0].poll())

    def test_one_that_ends_before_is_told_of(self):
        with self.assertRaisesRegex(SideFailed, "(?s)ended with 3.*why"):
            with self.beside("import sys; print('why', file=sys.stderr); sys.exit(3)") as processes:
                processes[0].wait()


if __name__ == "__main__":
    unittest.main()
