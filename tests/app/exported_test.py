"""Programs of torch.export end to end: several workers come to what one comes to, under PyTorch's names of parameters."""

import random
import unittest

from taxon_run import ROOT, TaxonTest

RECIPE = """
name: exported
seed: 3
model: {name: NETWORK}
data: {dataset: csv, path: table.csv, shape: [1, 6, 6], validation_share: 0.2}
batch: {global: 15}
optimiser: {rule: sgd, momentum: 0.9}
learning_rate: {base: 0.05, schedule: constant}
length: {samples: 300}
precision: {compute: float64, master: float64}
evaluation: {split: validation, batch: 16}
"""


class Workers(TaxonTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        rows = []
        for row in range(200):
            label = row % 5
            rows.append([*(round(draw.gauss(3.0 if i % 5 == label else 0.0, 1), 3) for i in range(36)), label])
        (self.folder / "table.csv").write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
        self.recipe.write_text(RECIPE.replace("NETWORK", str(ROOT / "tests/model/torch/exported/networks/mlp.pt2")))

    def test_two_workers_come_to_what_one_comes_to(self):
        self.taxon("train", self.recipe, "--out", "one")
        one = self.summary("one")
        self.assertGreater(one["validation_accuracy"], 0.8)  # a guess has 0.2
        # 2 workers of a batch of 15: their shares differ.
        self.taxon("train", self.recipe, "--workers", 2, "--out", "two")
        two = self.summary("two")
        self.assertEqual(two["steps"], one["steps"])
        self.assertAlmostEqual(two["validation_loss"], one["validation_loss"], places=9)
        self.assertAlmostEqual(two["train_loss"], one["train_loss"], places=9)
        self.assertIn(b'"1.weight"', (self.folder / "two" / "model.safetensors").read_bytes())


if __name__ == "__main__":
    unittest.main()
