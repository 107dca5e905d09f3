"""`taxon parallel` and `taxon schedule`: how a network is divided, on paper."""

import json
import re
import unittest

from taxon_run import ROOT, TaxonTest

CLUSTER = ROOT / "clusters/ethernet-10g.yaml"


class Parallel(TaxonTest):
    BESIDE_OTHERS = True

    def layers(self, *words):
        found = json.loads(self.taxon("parallel", *words, "--json").stdout)
        return found, {layer["name"]: layer for layer in found["layers"]}

    def test_a_table_says_why(self):
        out = self.taxon("parallel", "vgg-a", "--workers", 128, "--batch", 512).stdout
        self.assertIn("vgg-a: 132.9 M parameters, 45.65 GFLOP for each image; 128 workers, 512 samples a step", out)
        fc6 = next(line for line in out.splitlines() if line.startswith("fc6"))
        self.assertIn("822.08", fc6)  # data
        self.assertIn("102.76", fc6)  # model
        self.assertIn("51.38", fc6)  # 4 groups
        self.assertTrue(fc6.endswith("hybrid, 4 groups of 32"), fc6)
        conv1 = next(line for line in out.splitlines() if line.startswith("conv1"))
        self.assertTrue(conv1.endswith("data"), conv1)

    def test_programs_get_the_same(self):
        found, layers = self.layers("vgg-a", "--workers", 128, "--batch", 512)
        self.assertEqual((found["workers"], found["batch"], found["parameters"], found["flops_per_byte"]), (128, 512, 132863336, None))
        self.assertEqual((layers["fc6"]["split"], layers["fc6"]["groups"], layers["fc6"]["ideal_groups"]), ("hybrid", 4, 4))
        self.assertEqual(layers["fc6"]["bytes"], 2 * 4 * 25088 * 512 / 4 + 2 * 4 * 25088 * 4096 * 4 / 128)

    def test_a_cluster_gives_workers_and_times(self):
        found, _ = self.layers("cd-dnn", "--cluster", CLUSTER)
        self.assertEqual((found["workers"], found["batch"]), (64, 1024))
        self.assertAlmostEqual(found["flops_per_byte"], 500e9 / (9.41e9 / 8))
        self.assertIn("a worker does 425 operations while its link carries a byte", self.taxon("parallel", "cd-dnn", "--cluster", CLUSTER).stdout)

    def test_a_network_has_keys(self):
        found, _ = self.layers("gpt", "--set", "layers=2", "--set", "width=64", "--set", "heads=4", "--set", "context=32", "--set", "vocabulary=100")
        self.assertEqual(len(found["layers"]), 2 + 5 * 2)

    def test_without_a_name_there_is_a_list(self):
        names = [line.split()[0] for line in self.taxon("parallel").stdout.splitlines() if not line.startswith(" ")]
        self.assertEqual(names, [row["network"] for row in json.loads(self.taxon("parallel", "--json").stdout)])
        for name in names:
            self.assertIn(f"{name}: ", self.taxon("parallel", name, "--workers", 8).stdout)

    def test_all_mistakes_come_together(self):
        error = self.taxon("parallel", "vgga", "--workers", 3000, "--overlap", 7, "--set", "layers", "--cluster", CLUSTER, code=2).stderr
        for part in ('there is no network "vgga"; did you mean vgg-a?', "3000 ranks do not fit", "overlap must be from 0 to 1", '--set must be KEY=VALUE, but is "layers"'):
            self.assertIn(part, error)
        self.assertIn("7 heads do not divide 768", self.taxon("parallel", "gpt", "--set", "heads=7", code=2).stderr)
        self.assertIn("can be split into at most 1000 parts", self.taxon("parallel", "vgg-a", "--workers", 4096, "--batch", 2, code=2).stderr)


class Splits(TaxonTest):
    BESIDE_OTHERS = True

    def sent(self, workers, splits):
        """Megabytes of a step and a rank: as the table of the choice has them, and as the transport counted."""
        result = self.taxon("train", "pcl-dnn", "--workers", workers, "--out", "run", "--overwrite", "--set", "data.dataset=synthetic", "--set", "data.train_limit=512",
                            "--set", "data.test_limit=4", "--set", "length.epochs=0", "--set", "length.steps=4", "--set", "checkpoint.every_epochs=0",
                            "--set", "transport.kind=tcp", "--set", f"mesh.splits={splits}")
        lines = re.findall(r"weights: (\w+) (.*)", result.stdout + result.stderr)
        self.assertEqual(len(lines), 4, result.stdout + result.stderr)
        told = {float(re.search(rf" {chosen} ([\d.]+) MB", rest).group(1)) for chosen, rest in lines}
        self.assertEqual(len(told), 1)  # of all layers together
        return told.pop(), self.summary("run")["bytes_sent_per_step"] / 1e6, [chosen for chosen, _ in lines]

    def test_a_step_sends_what_the_choice_says(self):
        for workers in (2, 4):
            least = 0
            for splits in ("[auto]", "[auto, conv1=outputs]", "[auto, fc1=samples]", "[auto, conv2=inputs, fc2=samples]"):
                with self.subTest(workers=workers, splits=splits):
                    told, counted, chosen = self.sent(workers, splits)
                    self.assertAlmostEqual(counted / told, 1, delta=0.005)
                    self.assertGreaterEqual(told, least)
                    if splits == "[auto]":
                        least = told
                        self.assertEqual(chosen[:2], ["samples", "samples"])


class Schedule(TaxonTest):
    BESIDE_OTHERS = True

    def test_it_is_drawn(self):
        out = self.taxon("schedule", "gpipe", "--stages", 2, "--micro-batches", 3).stdout
        self.assertIn("\nrank 0  F0 F1 F2 .  .  .  B0 -- B1 -- B2 --\n"
                      "rank 1  .  F0 F1 F2 B0 -- B1 -- B2 -- .  .\n", out)
        self.assertIn("bubble: 25.0 % of 12 units ((p-1)/(m+p-1))", out)

    def test_programs_get_actions(self):
        found = json.loads(self.taxon("schedule", "zb_h1", "--stages", 4, "--micro-batches", 8, "--json").stdout)
        self.assertAlmostEqual(found["bubble"], 3 / (3 * 8 + 3))
        self.assertEqual((found["flushes"], found["room"]), (True, 0))
        self.assertEqual([stage["activations"] for stage in found["stage_memory"]], [4, 4, 4, 4])
        kinds = [action["action"] for action in found["ranks"][1]["actions"]]
        self.assertEqual(kinds.count("backward_weight"), 8)
        self.assertEqual(kinds[:3], ["receive_activation", "forward", "send_activation"])
        self.assertEqual(kinds[-1], "update")

    def test_stashed_weights_are_counted(self):
        found = json.loads(self.taxon("schedule", "pipedream", "--stages", 3, "--micro-batches", 9, "--json").stdout)
        self.assertEqual([stage["versions"] for stage in found["stage_memory"]], [3, 2, 1])
        self.assertFalse(found["flushes"])

    def test_a_network_is_cut(self):
        words = ("schedule", "1f1b", "--stages", 4, "--micro-batches", 8, "--network", "vgg-a", "--batch", 64, "--cluster", CLUSTER)
        placed = json.loads(self.taxon(*words, "--json").stdout)["placed"]
        self.assertEqual((placed["stages"][0]["first"], placed["stages"][-1]["last"]), ("conv1", "fc8"))
        self.assertGreater(placed["seconds"], 64 * 45.65e9 / 500e9 / 4)
        out = self.taxon(*words).stdout
        self.assertIn("vgg-a, a batch of 64 as micro-batches of 8, workers of 0.5 TFLOP/s, links of 9.41 Gbit/s:", out)
        self.assertIsNotNone(re.search(r"^step: .* without work; a rank's memory is at most ", out, re.MULTILINE))

    def test_every_schedule_that_is_listed_can_be_drawn(self):
        names = [row["schedule"] for row in json.loads(self.taxon("schedule", "--json").stdout)]
        self.assertGreaterEqual(len(names), 7)
        for name in names:
            stages = 1 if name == "data_parallel" else 4
            self.assertIn("rank 0  F0", self.taxon("schedule", name, "--stages", stages, "--micro-batches", 8).stdout)

    def test_all_mistakes_come_together(self):
        error = self.taxon("schedule", "interleaved", "--stages", 8, "--micro-batches", 6, "--network", "gtp", "--cluster", "nix.yaml", "--set", "chunks", code=2).stderr
        for part in ('--set must be KEY=VALUE, but is "chunks"', "6 is no multiple of 4 ranks", 'there is no network "gtp"; did you mean gpt?', "nix.yaml: cannot be read"):
            self.assertIn(part, error)
        self.assertIn("3 are fewer than 4", self.taxon("schedule", "1f1b", "--stages", 4, "--micro-batches", 3, code=2).stderr)
        self.assertIn("--batch needs --network", self.taxon("schedule", "1f1b", "--batch", 3, code=2).stderr)
        self.assertIn("8 micro-batches do not divide a batch of 9", self.taxon("schedule", "1f1b", "--network", "vgg-a", "--batch", 9, code=2).stderr)
        self.assertIn("11 segments cannot be cut into 12 stages",
                      self.taxon("schedule", "1f1b", "--network", "vgg-a", "--stages", 12, "--micro-batches", 12, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
