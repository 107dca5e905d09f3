"""Language models end to end: tokens through training, evaluation, profiles, simulation; their scores; wrong input."""

import json
import random
import unittest

from taxon_run import ROOT, TaxonTest

GPT = """
name: gpt
seed: 3
model: {name: gpt, layers: 1, width: 16, heads: 2}
data: {dataset: text, path: text, context: 16}
batch: {global: 8}
optimiser: {rule: adamw, weight_decay: 0.1}
learning_rate: {base: 0.01, schedule: constant}
length: {samples: 320}
precision: {compute: float64, master: float64}
evaluation: {batch: 16}
task: {name: language_model, sample: 20}
"""


class LanguageTest(TaxonTest):
    def setUp(self):
        super().setUp()
        (self.folder / "text").mkdir()
        draw = random.Random(1)
        for name, words in (("train", 2000), ("test", 150)):
            (self.folder / "text" / f"{name}.txt").write_text(" ".join(draw.choice(("taxon", "trains", "text")) for _ in range(words)))
        self.recipe.write_text(GPT)


class Workers(LanguageTest):
    BESIDE_OTHERS = True

    def test_any_number_of_workers_comes_to_what_one_comes_to(self):
        self.taxon("train", self.recipe, "--out", "one")
        one = self.summary("one")
        self.assertLess(one["test_bits_per_byte"], 3)  # a byte of noise has 8
        self.assertAlmostEqual(one["test_bits_per_byte"] * 0.6931471805599453, one["test_loss"], places=9)
        self.assertEqual(one["metric"], {"name": "bits_per_byte", "unit": "number", "better": "less"})
        self.assertNotIn("test_accuracy", one)
        # 3 workers of a batch of 8: their shares differ.
        self.taxon("train", self.recipe, "--workers", 3, "--out", "three", "--set", "batch.micro_batches=2")
        self.assertAlmostEqual(self.summary("three")["test_loss"], one["test_loss"], places=8)
        self.assertAlmostEqual(self.summary("three")["train_loss"], one["train_loss"], places=8)
        lines = [json.loads(line) for line in (self.folder / "three" / "metrics.jsonl").read_text().splitlines()]
        self.assertIn("perplexity/train", lines[0])
        self.assertIn("bits_per_byte/test", lines[-1])

    def test_what_the_model_writes_is_in_the_summary(self):
        result = self.taxon("train", self.recipe, "--out", "run", "--set", "length.samples=16")
        sample = self.summary("run")["sample"]
        test = (self.folder / "text" / "test.txt").read_text()
        self.assertEqual(sample["prompt"], test[:16])
        self.assertTrue(sample["written"])
        self.assertIn("writes", result.stdout)
        self.assertIn("bits per byte", result.stdout)

    def test_compressed_and_local_steps(self):
        for name, settings in (("int8", ["exchange.levels.0.codec.name=int8", "exchange.levels.0.codec.force=true"]),
                               ("local", ["exchange.levels.0.rule=average", "exchange.levels.0.period=4"])):
            self.taxon("train", self.recipe, "--workers", 2, "--out", name, "--set", "precision.compute=float32", "--set",
                       "precision.master=float32", *[word for setting in settings for word in ("--set", setting)])
            self.assertLess(self.summary(name)["test_bits_per_byte"], 3.5)


class Figures(LanguageTest):
    def test_profile_and_simulation(self):
        cluster = ["--cluster", ROOT / "clusters" / "lab-4.yaml", "--steps", 4]
        self.assertIn("8 samples", self.taxon("train", self.recipe, "--dry-run").stdout)
        self.taxon("profile", self.recipe, "--workers", 4, "--out", "profile.yaml", "--steps", 3, "--set", "precision.compute=float32", "--set",
                   "precision.master=float32")
        self.assertIn("input: [16]", (self.folder / "profile.yaml").read_text())
        for how in (["--fidelity", "exact"], ["--fidelity", "timing"], ["--fidelity", "timing", "--profile", "profile.yaml", "--set",
                                                                         "precision.compute=float32", "--set", "precision.master=float32"]):
            self.taxon("simulate", self.recipe, *cluster, *how)

    def test_compare_scores_by_bits_per_byte(self):
        other = self.folder / "other.yaml"
        other.write_text(GPT.replace("name: gpt\n", "name: wider\n", 1).replace("width: 16", "width: 32"))
        result = self.taxon("compare", self.recipe, other, "--workers", 1, "--samples", 64, "--out", "compared")
        self.assertIn("bits per byte", result.stdout)
        self.assertIn("bits_per_byte,bits_per_byte_error", (self.folder / "compared" / "compare.csv").read_text())
        self.assertIn("bits per byte", (self.folder / "compared" / "report.html").read_text())


class WrongInput(LanguageTest):
    BESIDE_OTHERS = True

    def refused(self, *settings):
        words = [word for setting in settings for word in ("--set", setting)]
        return self.taxon("train", self.recipe, "--out", "run", *words, code=2).stderr

    def test_models_and_data_that_do_not_fit_each_other(self):
        self.assertIn("model.name: must take what the data set gives: gpt takes tokens, and data set synthetic gives numbers",
                      self.refused("data.dataset=synthetic"))
        self.assertIn("cnn takes numbers, and data set text gives tokens", self.refused("model.name=cnn"))

    def test_all_mistakes_in_one_list(self):
        said = self.refused("model.widht=8", "model.heads=0", "task.name=languge_model")
        self.assertIn("model.widht is no key; did you mean model.width?", said)
        self.assertIn("model.heads must be a whole number, at least 1", said)
        self.assertIn("it is \"languge_model\"; did you mean language_model?", said)
        self.assertIn("model.heads: must divide model.width: width is 16, heads is 3", self.refused("model.heads=3"))
        self.assertIn("windows of the data set have 16 tokens", self.refused("model.context=64"))

    def test_keys_of_other_rows(self):
        said = self.refused("model.name=mlp", "data.dataset=synthetic", "task.name=auto", "model.layers=3", "task.top5=true")
        self.assertIn("model.layers is a key of vit, gpt, lstm; model mlp has none of its own", said)
        self.assertIn("task.top5 is a key of classification; task auto has none of its own", said)

    def test_five_likeliest_of_few_classes(self):
        (self.folder / "table.csv").write_text("a,b,label\n" + "\n".join(f"{i},{i * 2},{i % 3}" for i in range(60)) + "\n")
        said = self.refused("model.name=mlp", "data.dataset=csv", "data.path=table.csv", "data.validation_share=0.2", "evaluation.split=validation",
                            "task.name=classification", "task.top5=true")
        self.assertIn("task.top5: every label of 3 classes is among the five likeliest", said)


if __name__ == "__main__":
    unittest.main()
