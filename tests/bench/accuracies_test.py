"""What a system may lack, by lines as `taxon compare` writes them."""

import os
import tempfile
import types
import unittest
from unittest import mock

import context  # noqa: F401
from harness import accuracies, ledger

ASKED = accuracies.Question("accuracy", 4, "one process")


def line(accuracy="", error="", failure=""):
    return {"system": "sgp", "failure": failure, "accuracy": accuracy, "accuracy_error": error, "scheduling": "synchronous", "optimisation": "replicated",
            "compression": "dense", "staleness_mean": ""}


class Lacking(unittest.TestCase):
    def row(self, accuracy, error="0.003", most=0.5):
        return accuracies.row_of(ASKED, line(accuracy, error), line("0.88", "0.004"), most)

    def test_two_standard_errors_of_the_difference_are_allowed(self):
        # sqrt(0.3^2 + 0.4^2) = 0.5 points: 0.5 + 2 * 0.5 may be lacking.
        row = self.row("0.865")
        self.assertEqual((row.settings["lacks"], row.settings["allowed"], row.met, row.verified), (1.5, 1.5, True, True))
        row = self.row("0.8649")
        self.assertEqual((row.met, row.verified), (False, True))

    def test_more_than_the_reference_is_no_lack(self):
        self.assertTrue(self.row("0.9", "0").met)

    def test_where_nothing_is_asked_it_has_learnt_something(self):
        self.assertEqual((self.row("0.5", most=None).goal, self.row("0.5", most=None).verified), (None, True))
        self.assertFalse(self.row("0.1", most=None).verified)

    def test_a_run_that_failed_is_not_verified(self):
        row = accuracies.row_of(ASKED, line(failure="diverged"), line("0.88"), 0.5)
        self.assertEqual((row.verified, row.settings["failure"]), (False, "diverged"))

    def test_a_smoke_run_is_asked_for_nothing(self):
        self.assertTrue(accuracies.row_of(ASKED, line("0.1"), line("0.88"), None, smoke=True).verified)


class Recipes(unittest.TestCase):
    def test_every_recipe_is_of_one_benchmark(self):
        dense, coded = accuracies.systems(coded=False), accuracies.systems(coded=True)
        self.assertGreater(min(len(dense), len(coded)), 10)
        self.assertEqual(sorted(dense + coded), accuracies.systems())


class Folders(unittest.TestCase):
    def folder(self, commit, build_dir):
        session = types.SimpleNamespace(build_dir=build_dir, rows=types.SimpleNamespace(kind={"commit": commit}))
        return accuracies.folder_of(session, "accuracy", "cnn-4")

    def test_runs_are_kept_while_what_they_depend_on_is_the_same(self):
        with tempfile.TemporaryDirectory() as build_dir, mock.patch.object(ledger, "version_of", side_effect=["one", "one", "other"]):
            first = self.folder("0123456789", build_dir)
            os.makedirs(first)
            self.assertEqual(self.folder("abcdef0123", build_dir), first)
            self.assertTrue(os.path.exists(first))
            self.assertNotEqual(self.folder("abcdef0123", build_dir), first)

    def test_runs_of_what_is_not_committed_are_not_kept(self):
        with tempfile.TemporaryDirectory() as build_dir:
            folder = self.folder("0123456789-dirty", build_dir)
            os.makedirs(folder)
            self.assertFalse(os.path.exists(self.folder("0123456789-dirty", build_dir)))

    def test_everything_that_they_depend_on_is_in_the_tree(self):
        if ledger.git("rev-parse").returncode == 0:
            self.assertEqual(len({ledger.version_of([path]) for path in accuracies.CODE} - {None}), len(accuracies.CODE))


if __name__ == "__main__":
    unittest.main()
