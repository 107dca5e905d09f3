"""Training whose exchange is broken is found by its losses, and training that is right is not: real workers of this host, by the taxon program.

equal_work_test.py TAXON: one worker trains with the whole batch, two with halves of it."""

import os
import shutil
import sys
import tempfile
import types
import unittest

import context  # noqa: F401
from harness import equal, training

STEPS = 12


class EqualWork(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.alone = cls.losses_of(1)

    @classmethod
    def losses_of(cls, workers, *overrides):
        """As a benchmark runs Taxon's side, but with the same global batch for any number of workers."""
        session = types.SimpleNamespace(program=lambda name: TAXON, log_folder=cls.folder.name)
        work = training.Work(STEPS, 0, 10, rate=0.02)
        half = ("batch.per_worker=0", "batch.global=64", "model.name=lenet5", "data.train_limit=4000", *overrides)
        _, steps = training.train_taxon(session, workers, work, "contiguous", half, threads=1)
        return [one["loss/train"] for one in steps]

    def test_two_workers_have_the_losses_of_one(self):
        self.assertEqual(len(self.alone), STEPS)
        self.assertTrue(equal.same(self.losses_of(2), self.alone))

    def test_every_planted_fault_is_found(self):
        for name, overrides in training.PLANTS.items():
            with self.subTest(name):
                self.assertFalse(equal.same(self.losses_of(2, *overrides), self.alone))


if __name__ == "__main__":
    TAXON = os.path.abspath(sys.argv.pop(1))
    if not os.path.exists("/usr/share/datasets/fashion-mnist") or not shutil.which("taskset"):
        print("skipped: needs dataset-fashion-mnist and taskset")
        sys.exit(77)
    unittest.main()
