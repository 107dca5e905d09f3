"""Published systems as recipes: each is legal, short, stands where it says, and trains."""
import json
import unittest

from taxon_run import ROOT, TaxonTest

SYSTEMS = sorted((ROOT / "recipes" / "systems").glob("*.yaml"))
# A model and data that take no time; with two workers, as many as a small machine has cores.
SMALL = ["model.name=perceptron", "data.dataset=blobs", "data.train_limit=100", "data.test_limit=37",
         "batch.global=20", "length.epochs=0", "length.steps=240", "learning_rate.warmup_samples=0",
         "learning_rate.base=0.02"]


class Systems(TaxonTest):
    def test_each_has_a_source_and_is_short(self):
        self.assertGreaterEqual(len(SYSTEMS), 25)
        for recipe in SYSTEMS:
            lines = recipe.read_text().splitlines()
            self.assertLessEqual(len(lines), 20, recipe.name)
            self.assertTrue(lines[0].startswith("# ") and lines[1].startswith("# "), recipe.name)

    def test_the_taxonomy_says_where_each_stands(self):
        out = self.taxon("taxonomy", *SYSTEMS).stdout
        for recipe in SYSTEMS:
            self.assertIn("\n" + recipe.stem + " ", out)
        for axis in ("parallelism", "optimisation", "scheduling", "communication", "compression"):
            self.assertIn(axis + ": ", out)

    def test_a_recipe_that_can_not_be_read_is_named(self):
        result = self.taxon("taxonomy", "/nowhere.yaml", code=2)
        self.assertIn("/nowhere.yaml", result.stderr)

    def test_each_is_legal_for_four_workers(self):
        for recipe in SYSTEMS:
            with self.subTest(recipe.stem):
                self.taxon("train", recipe, "--workers", 4, "--dry-run", "--set", "mesh.node=2")

    def test_each_trains(self):
        for recipe in SYSTEMS:
            with self.subTest(recipe.stem):
                out = self.folder / recipe.stem
                sets = [word for value in SMALL + ["mesh.node=2"] for word in ("--set", value)]
                self.taxon("train", recipe, "--workers", 4, "--out", out, *sets)
                summary = json.loads((out / "summary.json").read_text())
                self.assertGreater(summary["test_accuracy"], 0.5)
                free = "staleness" in summary
                self.assertEqual(free, "topology: servers" in recipe.read_text())


if __name__ == "__main__":
    unittest.main()
