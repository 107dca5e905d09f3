"""Programs of torch.export end to end: several workers come to what one comes to, under PyTorch's names of parameters."""

import json
import random
import struct
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
    BESIDE_OTHERS = True

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

    def weights(self, out):
        """Values of model.safetensors, by name."""
        data = (self.folder / out / "model.safetensors").read_bytes()
        size, = struct.unpack("<Q", data[:8])
        found = {}
        for name, entry in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                self.assertEqual(entry["dtype"], "F64")
                found[name] = struct.unpack(f"<{(end - begin) // 8}d", data[8 + size + begin:8 + size + end])
        return found

    def test_stages_and_members_come_to_what_one_comes_to(self):
        split = ["--set", "batch.micro_batches=3"]
        self.taxon("train", self.recipe, *split, "--out", "one")
        one = self.weights("one")
        self.assertEqual(sorted(one), ["1.bias", "1.weight", "3.bias", "3.weight"])
        for axis in ("pipeline", "tensor"):
            with self.subTest(axis=axis):
                self.taxon("train", self.recipe, *split, "--workers", 2, "--set", f"mesh.{axis}=2", "--out", axis)
                two = self.weights(axis)
                self.assertEqual(sorted(two), sorted(one))
                for name, values in one.items():
                    self.assertEqual(len(two[name]), len(values))
                    self.assertLess(max(abs(a - b) for a, b in zip(two[name], values)), 1e-12, name)

    def test_what_cant_be_divided_says_why(self):
        gives_loss = ["--set", f"model.name={ROOT / 'tests/model/torch/exported/networks/loss.pt2'}", "--set", "model.returns=loss"]
        (self.folder / "table.csv").write_text("".join(f"{i},{i + 1},{i % 3},4,5,{i % 7},{i % 5}\n" for i in range(200)))
        error = self.taxon("train", self.recipe, *gives_loss, "--set", "data.shape=[6]", "--workers", 2, "--set", "mesh.tensor=2", "--out", "two", code=2).stderr
        self.assertIn("model loss can't be divided: it is one segment, since it reads labels beside what its layers give", error)


if __name__ == "__main__":
    unittest.main()
