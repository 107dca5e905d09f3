"""End-to-end tests of `taxon simulate` and `taxon profile`."""

import json
import unittest

from taxon_run import ROOT, TaxonTest

CLUSTER = """
name: two
hosts:
  - name: node
    count: 2
    device: {flops: 100 GFLOP/s, memory_bandwidth: 10 GB/s}
    network: {latency: 50us, overhead: 10us, bandwidth: 1 Gbit/s}
"""


class Simulate(TaxonTest):
    def setUp(self):
        super().setUp()
        self.cluster = self.folder / "cluster.yaml"
        self.cluster.write_text(CLUSTER)

    def simulate(self, *words, **more):
        return self.taxon("simulate", self.recipe, "--cluster", self.cluster, *words, **more)

    def figures(self):
        return json.loads((self.folder / "out.json").read_text())

    def test_timing_says_where_the_step_goes(self):
        text = self.simulate("--json", "out.json", "--trace", "trace.json", "--set", "batch.global=20000").stdout
        figures = self.figures()
        self.assertEqual(figures["workers"], 2)
        self.assertEqual(len(figures["step_seconds"]["all"]), 10)
        median = figures["step_seconds"]["median"]
        parts = figures["breakdown_seconds"]
        on_path = sum(parts[key] for key in ("compute", "encode", "wire", "latency", "wait"))
        self.assertAlmostEqual(on_path, median, delta=median * 1e-6)
        # 10000 samples of the MLP at 100 GFLOP/s: three passes of two operations for each weight.
        self.assertAlmostEqual(parts["compute"], 10000 * 6 * figures["parameters"] / 100e9, delta=0.15 * median)
        self.assertGreater(parts["exposed_communication"], 0)
        self.assertEqual({link["name"] for link in figures["links"]},
                         {f"node{i} network {way}" for i in range(2) for way in ("in", "out")})
        for link in figures["links"]:
            self.assertGreater(link["bytes_per_step"], figures["parameters"] * 4)
            self.assertLessEqual(link["busy"], 1)
        for word in ("median", "critical path", "forward and backward", "network", "samples/s"):
            self.assertIn(word, text)
        events = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 1})
        self.assertIn("forward and backward", {event["name"] for event in events})

    def test_a_long_critical_path_is_told_by_kinds(self):
        text = self.simulate("--json", "out.json", "--set", "exchange.bucket_bytes=4KiB",
                             "--set", "exchange.levels=[{codec: {name: top_k}}]").stdout
        pieces = self.figures()["critical_path"]
        self.assertGreater(len(pieces), 9)
        path = text[text.index("critical path of step"):].splitlines()
        self.assertTrue(path[0].endswith(", by kinds:"), path[0])
        self.assertLessEqual(len(path), 10)
        # Milliseconds of the kinds are those of all pieces, the longest first.
        times = [float(line.split()[0]) for line in path[1:]]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertAlmostEqual(sum(times), 1e3 * sum(piece["seconds"] for piece in pieces), delta=0.01)
        self.assertRegex(path[1], r" \((one piece|\d+ pieces)\)$")

    def test_exact_trains_to_the_real_runs_bits(self):
        self.simulate("--fidelity", "exact", "--steps", "6", "--json", "out.json")
        self.taxon("train", self.recipe, "--workers", "2", "--out", "real", "--set", "length.steps=6",
                   "--set", "transport.kind=tcp", "--set", "evaluation.every_epochs=0")
        self.assertEqual(self.figures()["parameter_hash"], self.summary("real")["parameter_hash"])

    def test_a_measured_profile_gives_the_time_of_compute(self):
        table = self.taxon("profile", self.recipe, "--workers", "2", "--threads", "1", "--steps", "5",
                           "--out", "mlp.yaml").stdout
        self.assertIn("backward, ms", table)
        text = self.simulate("--profile", "mlp.yaml", "--json", "out.json").stdout
        self.assertIn("taxon", text)
        figures = self.figures()
        self.assertGreater(figures["breakdown_seconds"]["compute"], 0)
        self.assertIn("median of 5 steps", figures["costs"])

    def test_a_counted_profile_needs_no_model(self):
        self.taxon("simulate", ROOT / "recipes/simulated/imagenet-resnet50.yaml", "--cluster",
                   ROOT / "clusters/ethernet-1g.yaml", "--workers", "4", "--profile", ROOT / "profiles/resnet50.yaml",
                   "--steps", "3", "--json", "out.json")
        figures = self.figures()
        self.assertEqual(figures["parameters"], 25557032)
        # 102 MB of gradients, of which a ring sends 3/4 twice: 1.3 s at 941 Mbit/s; 32 samples: 1.6 s.
        self.assertGreater(figures["step_seconds"]["median"], 1.5)
        self.assertLess(figures["step_seconds"]["median"], 3.5)

    def test_codec_auto_says_why(self):
        text = self.taxon("simulate", ROOT / "recipes/simulated/imagenet-resnet50.yaml", "--cluster",
                          ROOT / "clusters/ethernet-10g.yaml", "--workers", "4", "--profile", ROOT / "profiles/resnet50.yaml",
                          "--steps", "3", "--json", "out.json", "--set", "exchange.levels.0.collective=auto",
                          "--set", "exchange.levels.0.codec.name=auto", "--set", "exchange.levels.0.codec.of=bf16").stdout
        figures = self.figures()
        by = {reason.split(":")[0] for bucket in figures["buckets"] for reason in bucket["reasons"]}
        self.assertEqual(by, {"bf16", "dense"})  # small buckets are latency
        for bucket in figures["buckets"]:
            self.assertEqual(bucket["collectives"] == ["all_reduce bf16"], bucket["reasons"][0].startswith("bf16"))
        self.assertIn("bf16 serves", text)
        self.assertGreater(figures["codecs"][0]["ratio"], 1.9)
        self.assertGreater(figures["codecs"][0]["encode_ms"], 0)


class WrongSimulation(TaxonTest):
    BESIDE_OTHERS = True

    def refuse(self, *words):
        return self.taxon("simulate", *words, code=2).stderr

    def test_everything_that_is_wrong_is_listed_at_once(self):
        cluster = self.folder / "cluster.yaml"
        cluster.write_text(CLUSTER.replace("bandwidth: 1 Gbit/s", "bandwith: 1 Gbit/s"))
        said = self.refuse(self.recipe, "--cluster", cluster, "--workers", "4", "--fidelity", "timely",
                           "--profile", ROOT / "profiles/vgg_a.yaml", "--set", "optimiser.rule=sgt")
        for words in ("bandwith", "4 ranks do not fit", "timely", "timing", "optimiser.rule",
                      "it is of model \"vgg_a\", but the recipe trains \"mlp\""):
            self.assertIn(words, said)

    def test_files_that_are_not_there_are_all_named(self):
        said = self.refuse("no.yaml", "--cluster", "none.yaml", "--profile", "neither.yaml")
        for words in ("no.yaml", "none.yaml", "neither.yaml"):
            self.assertIn(words, said)

    def test_a_profile_of_another_batch_is_refused(self):
        self.taxon("profile", self.recipe, "--steps", "1", "--threads", "1", "--out", "mlp.yaml")
        cluster = self.folder / "cluster.yaml"
        cluster.write_text(CLUSTER)
        said = self.refuse(self.recipe, "--cluster", cluster, "--profile", "mlp.yaml")
        self.assertIn("40 sample(s)", said)
        self.assertIn("share is 20", said)

    def test_a_profile_of_parts_goes_with_models_that_know_what_they_hand_on(self):
        split = ("--workers", "2", "--set", "mesh.tensor=2")
        self.taxon("profile", self.recipe, "--steps", "1", "--threads", "1", "--out", "part.yaml", *split)
        cluster = self.folder / "cluster.yaml"
        cluster.write_text(CLUSTER)
        said = self.refuse(self.recipe, "--cluster", cluster, "--profile", "part.yaml", *split)
        self.assertIn("--fidelity exact", said)
        said = self.refuse(self.recipe, "--cluster", cluster, "--profile", "part.yaml", "--fidelity", "exact")
        self.assertIn("mesh.tensor: 2, but the recipe has 1", said)
        said = self.refuse(self.recipe, "--cluster", cluster, "--profile", ROOT / "profiles/vgg_a.yaml", "--fidelity", "exact")
        self.assertIn("must have measured times", said)
        text = self.taxon("simulate", self.recipe, "--cluster", cluster, "--profile", "part.yaml", "--fidelity", "exact",
                          "--steps", "3", *split).stdout
        self.assertIn("costs: taxon", text)


if __name__ == "__main__":
    unittest.main()
