"""Sides of slow-links are asked for steps and races as time-to-accuracy's functions take them."""

import dataclasses
import types
import unittest
from unittest import mock

import context  # noqa: F401
import slow_links as bench

SESSION = types.SimpleNamespace(mode="smoke")
WEIGHTS = {bench.SEED: "weights"}
TESTS = [{"samples": 1024, "seconds": 4.0, "accuracy/test": 0.9}]


class Sides(unittest.TestCase):
    def filled(self, side, runs):
        with mock.patch.object(bench.races, "learnt", autospec=True, return_value={"tests": TESTS}):
            return bench.fill(bench.row_of(side.name), SESSION, side, runs, 1e7, WEIGHTS)

    def test_ddp(self):
        race = {"tests": TESTS, "parameters": 10}
        with mock.patch.object(bench.races, "race_of_peer", autospec=True, return_value=race):
            run = bench.OfDdp().timed(SESSION, None, 8, WEIGHTS)
            row = self.filled(bench.OfDdp(), [run])
        self.assertEqual(run.samples_per_second, 256)
        self.assertEqual(row.settings["seconds"], 4)
        self.assertTrue(row.verified)

    def test_other_parameters_than_on_one_host_are_not_verified(self):
        summary = {"samples_per_second": 512.0, "parameter_hash": "a", "parameters": 10, "bytes_sent_per_step": 20, "compute_ms": 3.0}
        with mock.patch.object(bench.preset_run, "train", autospec=True, return_value=(summary, [])):
            side = bench.OfTaxon(bench.PRESETS[0])
            run = side.timed(SESSION, None, 8, WEIGHTS)
            self.assertTrue(self.filled(side, [run]).verified)
            other = dataclasses.replace(run, result="b")
            self.assertFalse(self.filled(side, [run, other]).verified)


if __name__ == "__main__":
    unittest.main()
