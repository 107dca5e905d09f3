"""Losses, gradients and weights that are not finite, in every family of systems."""

import json
import unittest

from taxon_run import TaxonTest

FAMILIES = {
    "dense": "[]",
    "sharded": "[{topology: sharded}]",
    "top_k": "[{codec: top_k}]",
    "sign": "[{codec: sign}]",
    "int8": "[{codec: int8}]",
    "local_sgd": "[{rule: average, period: 4}]",
    "servers": "[{topology: servers}]",
    "asynchronous_servers": "[{topology: servers, staleness: -1, apply: 1}]",
    "gossip": "[{topology: gossip, rule: average}]",
}


class Divergence(TaxonTest):
    BESIDE_OTHERS = True

    def train(self, out, levels, *more, code=0):
        chosen = () if levels == "[]" else ("--set", f"exchange.levels={levels}")
        return self.taxon("train", self.recipe, "--workers", 2, "--out", out, "--set", "optimiser.rule=sgd",
                          "--set", "learning_rate.base=1e30", *chosen, *more, code=code)

    def test_it_ends_the_run_in_every_family_and_no_such_model_is_saved(self):
        for name, levels in FAMILIES.items():
            with self.subTest(family=name):
                result = self.train(name, levels, code=67)
                self.assertRegex(result.stderr, r"diverged: step \d+: .* not finite")
                self.assertIn("on_divergence", result.stderr)
                self.assertNotIn("-nan", result.stderr)
                self.assertFalse((self.folder / name / "model.safetensors").exists())
                self.assertFalse((self.folder / name / "summary.json").exists())

    def test_ignored_it_goes_on_as_ever(self):
        result = self.train("run", "[]", "--set", "on_divergence=ignore", "--set", "checkpoint.every_steps=1", "--set",
                            "checkpoint.keep=1")
        self.assertNotIn("-nan", result.stderr + result.stdout)
        finite = [json.loads(path.read_text())["finite"] for path in (self.folder / "run/checkpoints").glob("*/manifest.json")]
        self.assertEqual(sorted(finite), [False, True], "the last finite one stays beside the newest")

    def test_a_word_that_is_none_of_the_three(self):
        self.assertIn("stop, skip, ignore", self.train("run", "[]", "--set", "on_divergence=halt", code=2).stderr)

    def test_skipped_steps_are_counted(self):
        result = self.train("run", "[]", "--set", "on_divergence=skip", "--set", "learning_rate.base=1e36", "--set",
                            "length={steps: 9}", code=67)
        self.assertRegex(result.stderr, r"step \d+ is skipped, the 1st so far: .* not finite")


if __name__ == "__main__":
    unittest.main()
