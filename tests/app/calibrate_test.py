"""taxon calibrate, end to end: the file that it writes is one that simulations take."""

import unittest

from taxon_run import TaxonTest, clean_environment


class Calibrate(TaxonTest):
    def test_alone_it_measures_the_machine(self):
        result = self.taxon("calibrate", "--quick", "--out", self.folder / "cluster.yaml")
        self.assertIn("GFLOP/s", result.stdout)
        self.assertIn("flops:", (self.folder / "cluster.yaml").read_text())
        self.taxon("simulate", self.recipe, "--cluster", "cluster.yaml", "--steps", 2)

    def test_two_workers_measure_the_way_between_them(self):
        result = self.taxon("calibrate", "--quick", "--workers", 2, "--threads", 1, "--out", self.folder / "cluster.yaml")
        self.assertIn("0 - 1", result.stdout)
        self.assertIn("devices: 2", (self.folder / "cluster.yaml").read_text())
        self.taxon("simulate", self.recipe, "--cluster", "cluster.yaml", "--steps", 2)

    def test_a_path_that_cannot_be_written_is_found_before_anything_is_measured(self):
        result = self.taxon("calibrate", "--workers", 2, "--out", "/proc/none/cluster.yaml", code=73)
        self.assertIn("/proc/none", result.stderr)
        self.assertNotIn("measuring", result.stderr)

    def test_a_launchers_worker_starts_no_others(self):
        result = self.taxon("calibrate", "--workers", 2, "--out", self.folder / "cluster.yaml", code=2,
                            environment=clean_environment(RANK=0, WORLD_SIZE=2))
        self.assertIn("--workers", result.stderr)

    def test_an_unknown_transport_is_named(self):
        result = self.taxon("calibrate", "--workers", 2, "--transport", "pigeon", "--out", self.folder / "cluster.yaml", code=2)
        self.assertIn("pigeon", result.stderr)


if __name__ == "__main__":
    unittest.main()
