"""Real targets end to end: a table through training, evaluation and its scores; losses of a model's own; samples of several tensors."""

import json
import random
import unittest

from taxon_run import ROOT, TaxonTest

NETWORKS = ROOT / "tests/model/torch/exported/networks"
RECIPE = """
name: table
seed: 3
model: {name: mlp}
data: {dataset: csv, path: table, targets: [level, slope]}
batch: {global: 15}
optimiser: {rule: sgd, momentum: 0.9}
learning_rate: {base: 0.02, schedule: constant}
length: {samples: 2000}
precision: {compute: float64, master: float64}
evaluation: {batch: 16}
"""
SERVERS = {"servers": "[{topology: servers}]", "asynchronous": "[{topology: servers, staleness: -1, apply: 1}]"}


class TableTest(TaxonTest):
    def setUp(self):
        super().setUp()
        (self.folder / "table").mkdir()
        draw = random.Random(1)
        for name, rows in (("train", 200), ("test", 61)):
            lines = ["a,b,c,word,flag,level,slope,class"]
            for _ in range(rows):
                a, b, c = (draw.gauss(0, 2) for _ in range(3))
                word, flag = draw.randrange(7), draw.randrange(2)
                lines.append(f"{a:.4f},{b:.4f},{c:.4f},{word},{flag},{4 + a - 2 * b + draw.gauss(0, 0.1):.5f},{a * c / 4:.5f},{(word + flag) % 5}")
            (self.folder / "table" / f"{name}.csv").write_text("\n".join(lines) + "\n")
        self.recipe.write_text(RECIPE)

    def targets(self, set_name):
        lines = (self.folder / "table" / f"{set_name}.csv").read_text().splitlines()[1:]
        return [float(word) for line in lines for word in line.split(",")[5:7]]


class Regression(TableTest):
    BESIDE_OTHERS = True

    def test_any_number_of_workers_comes_to_the_scores_of_one(self):
        result = self.taxon("train", self.recipe, "--out", "one")
        one = self.summary("one")
        self.assertGreater(one["test_r2"], 0.8)
        self.assertIn("test r2", result.stdout)
        self.assertEqual(one["metric"], {"name": "r2", "unit": "number", "better": "more"})
        self.assertAlmostEqual(one["test_mse"], one["test_loss"], places=9)
        # By its definition, around the mean of all targets.
        targets = self.targets("test")
        variance = sum(y * y for y in targets) / len(targets) - (sum(targets) / len(targets)) ** 2
        self.assertAlmostEqual(one["test_r2"], 1 - one["test_mse"] / variance, places=6)
        # 3 workers of a batch of 15 in 2 micro-batches, and of a last one of 5: their shares differ.
        self.taxon("train", self.recipe, "--workers", 3, "--out", "three", "--set", "batch.micro_batches=2")
        three = self.summary("three")
        for score in ("test_loss", "test_r2", "test_mae", "train_loss"):
            self.assertAlmostEqual(three[score], one[score], places=8, msg=score)
        lines = [json.loads(line) for line in (self.folder / "three" / "metrics.jsonl").read_text().splitlines()]
        self.assertIn("mae/train", lines[0])
        self.assertIn("r2/test", lines[-1])

    def test_servers_hear_of_sums_that_fall(self):
        for name, levels in SERVERS.items():
            with self.subTest(family=name):
                self.taxon("train", self.recipe, "--workers", 2, "--out", name, "--set", f"exchange.levels={levels}", "--set", "optimiser.momentum=0")
                self.assertGreater(self.summary(name)["test_r2"], 0.5)

    def test_resumed_it_goes_on_with_the_same_bits(self):
        self.taxon("train", self.recipe, "--workers", 2, "--out", "whole", "--set", "length.samples=600")
        self.taxon("train", self.recipe, "--workers", 2, "--out", "run", "--set", "length.samples=300")
        self.taxon("train", self.recipe, "--workers", 2, "--out", "run", "--set", "length.samples=600", "--resume")
        self.assertEqual(self.summary("run")["test_loss"], self.summary("whole")["test_loss"])

    def test_a_pipeline_comes_to_what_one_process_comes_to(self):
        short = ("--set", "length.samples=300")
        self.taxon("train", self.recipe, "--out", "one", *short)
        self.taxon("train", self.recipe, "--workers", 2, "--out", "two", *short, "--set", "mesh.pipeline=2", "--set", "batch.micro_batches=3")
        self.assertAlmostEqual(self.summary("two")["test_mae"], self.summary("one")["test_mae"], places=8)

    def test_divergence_ends_it_or_is_skipped(self):
        wild = ("--set", "learning_rate.base=1e30", "--set", "optimiser.momentum=0")
        for workers in (1, 2):
            result = self.taxon("train", self.recipe, "--workers", workers, "--out", f"stop{workers}", *wild, code=67)
            self.assertRegex(result.stderr, r"diverged: step \d+: .* not finite")
        result = self.taxon("train", self.recipe, "--workers", 2, "--out", "skip", *wild, "--set", "on_divergence=skip", "--set",
                            "learning_rate.base=1e200", "--set", "length={steps: 9}", code=67)
        self.assertRegex(result.stderr, r"step \d+ is skipped, the 1st so far: .* not finite")

    def test_what_does_not_fit_is_said_before_the_run(self):
        said = self.taxon("train", self.recipe, "--out", "run", "--set", "task.name=classification", code=2).stderr
        self.assertIn("classification does not fit samples that have inputs float32 [6] and targets float32 [2]", said)
        said = self.taxon("train", self.recipe, "--out", "run", "--set", "model.name=perceptron", code=2).stderr
        self.assertIn("perceptron has the loss of classes only", said)
        said = self.taxon("train", self.recipe, "--out", "run", "--set", "model.returns=loss", code=2).stderr
        self.assertIn("model.returns is a key of models of files; model mlp has none of its own", said)


class OwnLoss(TableTest):
    BESIDE_OTHERS = True

    def test_a_loss_that_the_model_returns(self):
        settings = ("--set", "data.targets=[]", "--set", "data.inputs=[a b c word flag level]", "--set", "data.classes=5")
        self.taxon("train", self.recipe, "--out", "tied", *settings, "--set", f"model.name={NETWORKS}/tied.pt2")
        tied = self.summary("tied")
        for workers, name in ((1, "loss"), (2, "loss"), (2, "loss_alone")):
            with self.subTest(name, workers=workers):
                out = f"{name}{workers}"
                self.taxon("train", self.recipe, "--workers", workers, "--out", out, *settings, "--set", f"model.name={NETWORKS}/{name}.pt2",
                           "--set", "model.returns=loss", "--set", "batch.micro_batches=2")
                found = self.summary(out)
                self.assertAlmostEqual(found["test_loss"], tied["test_loss"], places=8)
                if name == "loss":
                    self.assertEqual(found["test_accuracy"], tied["test_accuracy"])
                else:
                    self.assertNotIn("test_accuracy", found)


class SeveralInputs(TableTest):
    BESIDE_OTHERS = True

    settings = ("--set", "data.targets=[]", "--set", f"model.name={NETWORKS}/two_inputs.pt2", "--set", "data.classes=5")

    def test_words_and_numbers_with_any_number_of_workers(self):
        inputs = ("--set", "data.inputs=['int64:word flag word', a..c a..c]")
        self.taxon("train", self.recipe, "--out", "one", *self.settings, *inputs)
        one = self.summary("one")
        self.assertGreater(one["test_accuracy"], 0.3)  # a guess has 0.2
        self.taxon("train", self.recipe, "--workers", 2, "--out", "two", *self.settings, *inputs)
        self.assertAlmostEqual(self.summary("two")["test_loss"], one["test_loss"], places=8)

    def test_what_does_not_fit_is_said_with_both_shapes(self):
        for inputs, words in (
            ("[a b c]", "takes 2 tensors, and a batch has 1"),
            ("['int64:word flag', a..c a..c]", "takes inputs of shape [batch, 3], and the data set's are [batch, 2]"),
            ("[a b c, a..c a..c]", "takes inputs of type Long, and the data set's are float32"),
        ):
            said = self.taxon("train", self.recipe, "--out", "run", *self.settings, "--set", f"data.inputs={inputs}", code=65).stderr
            self.assertIn(words, said)
        said = self.taxon("train", self.recipe, "--out", "run", "--set", "data.inputs=[a, b]", code=2).stderr
        self.assertIn("model mlp takes one tensor", said)


if __name__ == "__main__":
    unittest.main()
