"""Published systems as recipes: each is legal, short, stands where it says, and trains: with the bytes of its closed form, and as
its family must.

Every recipe trains in processes over TCP, small but large enough for its codec to work on; those whose workers keep step are run
again on virtual time, where the same code must give the same bits and the same bytes."""

import array
import json
import math
import re
import struct
import unittest
from typing import NamedTuple

from taxon_run import ROOT, TaxonTest

SYSTEMS = sorted((ROOT / "recipes" / "systems").glob("*.yaml"))
WORKERS, STEPS, BATCH = 4, 60, 40
UPDATES = 4  # of a step, where stages update by themselves
SMALL = ["model.name=mlp", "data.dataset=synthetic", "data.train_limit=2000", "data.test_limit=200", f"batch.global={BATCH}",
         "length.epochs=0", f"length.steps={STEPS}", "learning_rate.warmup_samples=0", "evaluation.every_epochs=0", "mesh.node=2",
         "transport.kind=tcp"]
# What the recipes take in steps is for runs of 1,400: here everything begins and ends within STEPS.
SHORTER = [(r"dense_steps: ", "exchange.levels.0.codec.dense_steps=4"), (r"freeze_steps: ", "optimiser.freeze_steps=4"),
           (r"warmup_density: ", "exchange.levels.0.codec.warmup_steps=1"), (r"rule: \w+.* warmup_steps: ", "exchange.levels.0.warmup_steps=12"),
           (r"period: (1[5-9]|[2-9]\d)\b", "exchange.levels.0.period=6"), (r"fragments: .*delay: ", "exchange.levels.0.delay=1"),
           (r"schedule: pipedream\b", f"batch.micro_batches={UPDATES}"), (r"schedule: pipedream_2bw", f"batch.micro_batches={2 * UPDATES}"),
           (r"name: two_bit", "exchange.levels.0.codec.threshold=0.005"),
           # Step sizes with which so short a run learns with late gradients, few meetings, no warm-up.
           (r"rule: outer_nesterov", "learning_rate.base=0.01"), (r"rule: accumulated", "learning_rate.base=0.2"),
           (r"rule: adagrad", "learning_rate.base=0.005"),
           (r"rule: momentum(.|\n)* staleness: (-1|[1-9])", "learning_rate.base=0.02"), (r"late: less", "learning_rate.base=0.1"),
           (r"schedule: pipedream", "learning_rate.base=0.01")]
CLUSTER = """
name: four
hosts:
  - name: node
    count: 4
    device: {flops: 100 GFLOP/s, memory_bandwidth: 10 GB/s}
    network: {latency: 50us, overhead: 10us, bandwidth: 1 Gbit/s}
"""


class Stands(NamedTuple):
    """Where a system stands: the axes as `taxon taxonomy` prints them, without how many steps a period has."""
    optimisation: str
    scheduling: str
    communication: str
    compression: str = "dense"


def coded(codec, optimisation="replicated", communication="all-reduce"):
    return Stands(optimisation, "synchronous", communication, codec)


REPLICATED = Stands("replicated", "synchronous", "all-reduce")
SERVERS = Stands("servers", "synchronous", "servers")
PLACES = {
    "1bit-adam": coded("one_bit"), "1bit-sgd": coded("one_bit"), "cocktail-sgd": coded("cocktail"), "demo": coded("dct_top_k"),
    "dgc": coded("top_k"), "ef-signsgd": coded("sign"), "gs-sgd": coded("count_sketch"), "gs-sgd-split": coded("split_sketch"),
    "gtopk": coded("gtop_k"), "ok-topk": coded("split_top_k"), "powersgd": coded("power_sgd"),
    "qsgd": coded("qsgd"), "signsgd-mv": coded("sign_vote"), "strom": coded("threshold"), "terngrad": coded("terngrad"),
    "topk": coded("top_k"), "poseidon": coded("sufficient factors by rule"),
    "sketched-sgd": coded("count_sketch", "servers", "servers"), "mxnet-2bit": coded("two_bit", "servers", "servers"),
    "deeplearning4j": coded("adaptive_threshold"), "theano-mpi": coded("fp16"),
    "diloco-int8": Stands("replicas, outer Nesterov", "synchronous, every H steps", "all-reduce", "int8"),
    "sparse-loco": Stands("replicas, averaged", "synchronous, every H steps", "all-reduce", "chunk_top_k"),
    "horovod": REPLICATED._replace(communication="all-reduce (ring)"),
    "pytorch-ddp": REPLICATED._replace(communication="all-reduce (ring)"),
    "caffe2": REPLICATED._replace(communication="all-reduce (halving-doubling)"),
    "firecaffe": REPLICATED._replace(communication="all-reduce (tree)"),
    "powerai-ddl": REPLICATED._replace(communication="all-reduce (torus)"),
    "cots-hpc": REPLICATED, "gpipe": REPLICATED, "megatron": REPLICATED, "pcl-dnn": REPLICATED, "pipedream-flush": REPLICATED, "zero-bubble": REPLICATED,
    "pipedream": REPLICATED._replace(scheduling="pipelined updates, 0 to p-1 late"),
    "pipedream-2bw": REPLICATED._replace(scheduling="pipelined updates, 1 late"),
    "zero-3": Stands("sharded with the parameters", "synchronous", "sharded"),
    "fsdp": Stands("sharded with the parameters", "synchronous", "node: sharded; across: all-reduce"),
    "adasum": REPLICATED._replace(communication="adasum"),
    "bigdl": Stands("sharded", "synchronous", "sharded"),
    "chainermn": Stands("sharded", "synchronous", "node: sharded; across: all-reduce"),
    "caffe-on-spark": Stands("sharded", "synchronous", "node: sharded; across: sharded"),
    "byteps": SERVERS, "geeps": SERVERS, "mxnet-sync": SERVERS, "p3": SERVERS, "paddlepaddle": SERVERS,
    "tensorflow-backup": SERVERS._replace(scheduling="synchronous, quorum 3, 3 an update"),
    "bosen": SERVERS._replace(scheduling="staleness 2"),
    "li-parameter-server": SERVERS._replace(scheduling="staleness 4"),
    "distbelief": SERVERS._replace(scheduling="asynchronous"),
    "downpour": SERVERS._replace(scheduling="asynchronous"),
    "mxnet-async": SERVERS._replace(scheduling="asynchronous"),
    "project-adam": SERVERS._replace(scheduling="asynchronous"),
    "dc-asgd": SERVERS._replace(scheduling="asynchronous, delay compensated adaptively"),
    "dynsgd": SERVERS._replace(scheduling="asynchronous, late ones count less"),
    "rudra-softsync": SERVERS._replace(scheduling="asynchronous, 2 an update, late ones count less"),
    "omnivore": Stands("servers; sharded", "asynchronous", "node: sharded; across: servers"),
    "adag": Stands("replicas, accumulated", "asynchronous, late ones moved along, every H steps", "servers"),
    "deepspark": Stands("replicas, elastic centre", "asynchronous, every H steps", "servers"),
    "eamsgd": Stands("replicas, elastic centre", "asynchronous, every H steps", "servers"),
    "easgd": Stands("replicas, elastic centre", "asynchronous", "servers"),
    "mpca-proxy": Stands("replicas, outer momentum", "asynchronous, every H steps", "servers"),
    "easgd-sync": Stands("replicas, elastic centre", "synchronous, every H steps", "all-reduce"),
    "cntk-bmuf": Stands("replicas, block Nesterov", "synchronous, every H steps", "all-reduce"),
    "diloco": Stands("replicas, outer Nesterov", "synchronous, every H steps", "all-reduce"),
    "streaming-diloco": Stands("replicas, outer Nesterov", "synchronous, every H steps in 3 fragments, adopted 5 later", "all-reduce"),
    "local-sgd": Stands("replicas, averaged", "synchronous, every H steps", "all-reduce"),
    "post-local-sgd": Stands("replicas, averaged", "synchronous, every H steps", "all-reduce"),
    "sparknet": Stands("replicas, averaged", "synchronous, every H steps", "all-reduce"),
    "slowmo": Stands("replicas, slow momentum", "synchronous, every H steps", "all-reduce"),
    "d-psgd": Stands("replicas, mixed", "synchronous", "gossip (ring)"),
    "gosgd": Stands("replicas, mixed", "synchronous, every H steps", "gossip (push)"),
    "gossiping-sgd": Stands("replicas, mixed", "synchronous", "gossip (random)"),
    "singa": Stands("replicas, mixed; sharded", "synchronous, every H steps", "node: sharded; across: gossip (ring)"),
    "gossipgrad": Stands("replicas, mixed", "synchronous", "gossip (dissemination)"),
    "sgp": Stands("replicas, mixed", "synchronous", "gossip (exponential)"),
    "ad-psgd": Stands("replicas, mixed", "asynchronous", "pairs"),
    "gaia": Stands("replicas, mixed; sharded", "synchronous, of what is significant", "node: sharded; across: significant"),
}


def axes(line):
    """A line of `taxon taxonomy`, as a place."""
    parts = re.sub(r"every \d+ steps", "every H steps", line).split("; ")[1:]
    when = next(i for i, part in enumerate(parts) if re.match("synchronous|asynchronous|staleness|pipelined", part))
    return Stands("; ".join(parts[:when]), parts[when], "; ".join(parts[when + 1:-1]), parts[-1])


# Closed forms. Of n members each sends, for a wire of S bytes, what its algebra lets travel (docs/compression.md).
N = WORKERS
ALL_REDUCED, GATHERED, SERVED = 2 * (N - 1) / N, N - 1, 2 * (N - 1) / N
# Bytes a value of each codec, in terms of the recipe's keys, and how wires travel.
CODECS = {
    "int8": (lambda key: 1 + 4 / key("block", 256), ALL_REDUCED),
    "one_bit": (lambda key: 1 / 8 + 8 / key("block"), ALL_REDUCED),
    "sign": (lambda key: 1 / 8 + 4 / key("block"), ALL_REDUCED),
    "sign_vote": (lambda key: 1 / 8, ALL_REDUCED),
    "qsgd": (lambda key: key("bits") / 8 + 4 / key("block"), ALL_REDUCED),
    "terngrad": (lambda key: 1 / 4 + 4 / key("block"), ALL_REDUCED),
    "fp16": (lambda key: 2, ALL_REDUCED),
    "threshold": (lambda key: 4 * key("density"), GATHERED),
    "adaptive_threshold": (lambda key: 4 * key("density"), GATHERED),
    "top_k": (lambda key: 8 * key("density"), GATHERED),
    "split_top_k": (lambda key: 8 * key("density"), ALL_REDUCED),
    "gtop_k": (lambda key: 8 * key("density"), 2 * (N - 1) / N),  # a tree of merges, a broadcast: n - 1 wires each
    "chunk_top_k": (lambda key: key("density") * (2 + key("bits") / 8) + 8 / key("block"), GATHERED),
    "dct_top_k": (lambda key: 6 * key("density"), GATHERED),
    "cocktail": (lambda key: key("density") * (2 + key("bits") / 8) + 8 * key("drawn") / key("block"), GATHERED),
    "count_sketch": (lambda key: 2 * key("rows") * key("columns") + 4 * key("candidates") * key("density"), ALL_REDUCED),
    "split_sketch": (lambda key: (4 + 32 / 64) / 8 * key("rows") * key("columns") + 1 / 8 + 2 * key("density") * key("bits") / 8, (N - 1) / N),
}
# To servers and back: sketches, questions for candidates, their values, and answers of places and weights; gradients, and all weights.
AT_SERVERS = {
    "count_sketch": (lambda key: 2 * key("rows") * key("columns") + (4 + 4) * key("candidates") * key("density") + 8 * key("density"), (N - 1) / N),
    "two_bit": (lambda key: 1 / 4 + 4, (N - 1) / N),
}
# Dense sums and meetings: bytes that a member sends, over those of the model.
DENSE = {"all_reduce": ALL_REDUCED, "sharded": ALL_REDUCED, "servers": SERVED, "adasum": math.log2(N), "gossip ring": 2,
         "gossip exponential": 1, "gossip dissemination": 1, "gossip random": 1, "gossip push": 1,
         "node, across": 2 * (2 - 1) / 2 + 2 * (2 - 1) / 2 / 2}  # two of a node; then two nodes, half of the model each


class Recipe:
    """A recipe's text, and what it says under the overrides of these tests."""
    def __init__(self, path):
        self.path, self.name = path, path.stem
        self.text = "".join(line for line in path.read_text().splitlines(True) if not line.startswith("#"))
        self.levels = self.text[self.text.index("levels:"):]
        self.overrides = SMALL + [override for pattern, override in SHORTER if re.search(pattern, self.text)]
        self.place = PLACES.get(self.name)

    def key(self, name, otherwise=None, text=None):
        for override in self.overrides:
            if override.startswith("exchange.levels.0.") and re.match(rf"(.*\.)?{name}=", override[len("exchange.levels.0."):]):
                return float(override.split("=")[1])
        found = re.search(rf"\b{name}: (-?[0-9.]+)", text or self.levels)
        if not found and otherwise is None:
            raise KeyError(f"{self.name} has no {name}")
        return float(found.group(1)) if found else otherwise

    def word(self, name, otherwise=""):
        found = re.search(rf"\b{name}: (\w+)", self.levels)
        return found.group(1) if found else otherwise

    def family(self):
        """What it must do beside learning: see the classes below."""
        if re.search("asynchronous|quorum|staleness", self.place.scheduling):
            return "out of step"
        if self.place.compression not in ("dense", "sufficient factors by rule"):
            return "coded"
        apart = "replicas" in self.place.optimisation or "pipelined" in self.place.scheduling or self.place.communication == "adasum"
        return "apart" if apart else "sum"

    def rounds(self):
        """How often members meet: after each period and after the last step; in each step of a warm-up."""
        warm = self.key("warmup_steps", 0) if "replicas" in self.place.optimisation else 0
        period = self.key("period", 1)
        return warm + math.ceil(STEPS / period) - warm // period

    def small_values(self, shapes):
        """Values of the tensors that `dense_below` leaves as they are."""
        return sum(math.prod(shape) for shape in shapes if math.prod(shape) < self.key("dense_below", 0))

    def bytes_per_step(self, shapes):
        """The least and the most that a member sends in a step, in the mean."""
        values = sum(math.prod(shape) for shape in shapes)
        codec, place = self.place.compression, self.place
        if place.communication == "pairs":
            return 0.01 * 4 * values, 2 * 4 * values  # one side begins an exchange for each of its steps, and at most all steps are its
        if "significant" in place.communication:  # inside the node all, across it no more than places and values of a half
            return 4 * values * 1, 4 * values * 2
        if place.optimisation == "servers" and "an update" in place.scheduling:  # late ones have no answer of their own
            return 0.8 * SERVED * 4 * values, 1.02 * SERVED * 4 * values
        stages = self.key("pipeline", 1, self.text)
        if stages > 1:  # a half of the model in two replicas; from the first layer to the others a share's activations, and back
            between = BATCH / (N / stages) * shapes[0][0]
            updates = UPDATES if "pipelined" in self.place.scheduling else 1
            return 0.98 * 4 * (updates * values / stages + between), 1.03 * 4 * (updates * values / stages + between)
        members = self.key("tensor", 1, self.text)
        if members > 1:  # a part of the model among replicas; between layers no more than their outputs, and back (parallel_test.py says how much)
            replicas = N / members
            part, outputs = 2 * (replicas - 1) / replicas * values / members, [shape[0] for shape in shapes if len(shape) > 1]
            return 0.98 * 4 * (part + BATCH / replicas * min(outputs)), 1.03 * 4 * (part + 2 * BATCH / replicas * sum(outputs))
        if "across: gossip" in place.communication:  # inside the node all in a step; in a round a half to the other node, and then inside the node
            total = 4 * values * (1 + self.rounds() / STEPS)
            return 0.98 * total, 1.03 * total
        if codec == "dense":
            topology = self.word("topology", "all_reduce")
            kind = "node, across" if "group: across" in self.levels else f"gossip {self.word('graph')}" if topology == "gossip" else topology
            total = DENSE[kind] * 4 * values * self.rounds() / STEPS
            if self.word("parameters") == "sharded":
                # Layers are gathered forward and back in place of once, but the last two, which are kept in between.
                layers = [math.prod(weight) + math.prod(bias) for weight, bias in zip(shapes[::2], shapes[1::2])]
                members = 2 if "group: node" in self.levels else N
                total += (members - 1) / members * 4 * sum(layers[:-2])
        elif codec == "power_sgd":
            total = ALL_REDUCED * 4 * sum(self.factor_values(shape) for shape in shapes)
        elif codec == "sufficient factors by rule":
            total = 4 * sum(self.sufficient_values(shape) for shape in shapes)
        else:
            total = self.coded_bytes(values, shapes)
        # Who is out of step with the others may meet once more behind the last whole period of its share.
        more = 1 + 1 / self.rounds() if self.family() == "out of step" else 1
        return 0.98 * total, 1.03 * total * more

    def coded_bytes(self, values, shapes):
        form, travel = (AT_SERVERS if self.place.optimisation == "servers" else CODECS)[self.place.compression]
        small = self.small_values(shapes)
        if "replicas" in self.place.optimisation:
            return travel * values * form(self.key) * self.rounds() / STEPS
        whole = self.key("dense_steps", 0)
        densities = re.search(r"warmup_density: \[([^\]]*)\]", self.levels)
        total = whole * ALL_REDUCED * 4 * values
        for step in range(int(whole), STEPS):
            early = [float(d) for d in densities.group(1).split(",")] if densities else []
            key = (lambda name, otherwise=None: early[step] if name == "density" and step < len(early) else self.key(name, otherwise))
            total += travel * (values - small) * form(key) + ALL_REDUCED * 4 * small
        return total / STEPS

    def factor_values(self, shape):
        """PowerSGD's: both factors of a matrix, where they are less than half of it."""
        rows, columns = shape[0], math.prod(shape[1:])
        factors = self.key("rank") * (rows + columns)
        return factors if len(shape) > 1 and 2 * factors < rows * columns else rows * columns

    def sufficient_values(self, shape):
        """Poseidon's rule: inputs and gradients of the samples to all others, or a share in the sum."""
        dense = ALL_REDUCED * math.prod(shape)
        return min(dense, BATCH / N * (N - 1) * sum(shape)) if len(shape) == 2 else dense


def tensors(path):
    """Shapes and values of a safetensors file, in the order of their names."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    head = {name: entry for name, entry in json.loads(data[8:8 + size]).items() if name != "__metadata__"}
    values = array.array("f")
    for name in sorted(head):
        begin, end = head[name]["data_offsets"]
        values.frombytes(data[8 + size + begin:8 + size + end])
    return [head[name]["shape"] for name in sorted(head)], values


def distance(a, b):
    """|a - b| / |b|."""
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / sum(y * y for y in b))


class Systems(TaxonTest):
    BESIDE_OTHERS = True

    maxDiff = None

    def test_each_has_a_source_and_is_short(self):
        self.assertGreaterEqual(len(SYSTEMS), 25)
        for recipe in SYSTEMS:
            lines = recipe.read_text().splitlines()
            self.assertLessEqual(len(lines), 20, recipe.name)
            self.assertTrue(lines[0].startswith("# ") and lines[1].startswith("# "), recipe.name)
            self.assertRegex(lines[2], r"^# (differs: \S|faithful\b)", recipe.name)

    def test_the_taxonomy_says_where_each_stands(self):
        out = self.taxon("taxonomy", *SYSTEMS).stdout
        for axis in ("parallelism", "optimisation", "scheduling", "communication", "compression"):
            self.assertIn(axis + ": ", out)
        for alone in (out, self.taxon("taxonomy").stdout):
            self.assertIn("  GPipe (Huang et al., NeurIPS 2019): gpipe\n", alone)
            self.assertIn("  PipeDream (Narayanan et al., SOSP 2019): pipedream; without: streams without a flush between steps", alone)
            self.assertIn("  STRADS (Lee et al., NeurIPS 2014; Kim et al., EuroSys 2016): no recipe; without: blocks of parameters", alone)
            self.assertIn("  Horovod (Sergeev and Del Balso, 2018; Maleki et al., MLSys 2021): horovod adasum\n", alone)
        lines = dict(re.findall(r"^(\S+) +(data[^;]*; .*)$", out, re.MULTILINE))
        self.assertEqual(sorted(lines), sorted(PLACES), "each recipe has a row of PLACES")
        self.assertEqual({name: axes(line) for name, line in lines.items()}, PLACES)

    def test_a_recipe_that_can_not_be_read_is_named(self):
        result = self.taxon("taxonomy", "/nowhere.yaml", code=2)
        self.assertIn("/nowhere.yaml", result.stderr)


class FamilyTest(TaxonTest):
    """Trains the recipes of a family, each as its own."""
    def setUp(self):
        super().setUp()
        (self.folder / "cluster.yaml").write_text(CLUSTER)

    def train(self, recipe, workers=WORKERS):
        """Its summary; what it must not be whatever its family is tested."""
        out = self.folder / recipe.name
        sets = [word for override in recipe.overrides if workers == WORKERS or "mesh" not in override for word in ("--set", override)]
        self.taxon("train", recipe.path, "--workers", workers, "--out", out, "--overwrite", *sets)
        summary = json.loads((out / "summary.json").read_text())
        self.assertGreater(summary["test_accuracy"], 0.2 if recipe.family() == "out of step" else 0.5)  # 0.1 by chance
        self.assertGreaterEqual(summary["samples"], STEPS * BATCH)
        self.assertEqual("staleness" in summary, "servers" in recipe.place.communication)
        self.shapes, self.weights = tensors(out / "model.safetensors")
        if workers == WORKERS:
            least, most = recipe.bytes_per_step(self.shapes)
            self.assertGreaterEqual(summary["bytes_sent_per_step"], least)
            self.assertLessEqual(summary["bytes_sent_per_step"], most)
        return summary

    def expect_the_same_on_virtual_time(self, recipe, summary):
        sets = [word for override in recipe.overrides for word in ("--set", override)]
        self.taxon("simulate", recipe.path, "--cluster", "cluster.yaml", "--workers", WORKERS, "--fidelity", "exact", "--steps", STEPS,
                   "--json", "virtual.json", *sets)
        virtual = json.loads((self.folder / "virtual.json").read_text())
        self.assertEqual(virtual["parameter_hash"], summary["parameter_hash"])
        self.assertAlmostEqual(virtual["bytes_sent_per_step"] / summary["bytes_sent_per_step"], 1, delta=0.001)

    def for_each(self, family, expect):
        """Expects it of every recipe of the family."""
        recipes = [recipe for recipe in map(Recipe, SYSTEMS) if recipe.place and recipe.family() == family]
        self.assertGreater(len(recipes), 5)
        for recipe in recipes:
            with self.subTest(recipe.name):
                expect(recipe)


class SystemsThatSum(FamilyTest):
    """The mean gradient of all, in step: one process's weights."""
    BESIDE_OTHERS = True

    def test_each_trains_as_one_process(self):
        self.train(Recipe(ROOT / "recipes" / "systems" / "horovod.yaml"), workers=1)
        alone = self.weights

        def expect(recipe):
            summary = self.train(recipe)
            self.assertLess(distance(self.weights, alone), 1e-4)
            self.assertEqual(summary.get("staleness", {}).get("max", 0), 0)
            self.expect_the_same_on_virtual_time(recipe, summary)
        self.for_each("sum", expect)


class SystemsWithCodecs(FamilyTest):
    """Something else than the gradients travels, of the closed form's size."""
    BESIDE_OTHERS = True

    def test_each_trains(self):
        def expect(recipe):
            summary = self.train(recipe)
            codec, = summary["codecs"]
            self.assertEqual(codec["codec"], recipe.place.compression)
            self.assertGreater(codec["ratio"], 1.5)
            self.expect_the_same_on_virtual_time(recipe, summary)
        self.for_each("coded", expect)


class SystemsApart(FamilyTest):
    """Replicas, or sums that are no mean, in step."""
    BESIDE_OTHERS = True

    def test_each_trains(self):
        self.for_each("apart", lambda recipe: self.expect_the_same_on_virtual_time(recipe, self.train(recipe)))


class SystemsOutOfStep(FamilyTest):
    """What comes when decides."""
    def test_each_trains(self):
        def expect(recipe):
            summary = self.train(recipe)
            staleness = summary.get("staleness", {"max": 0, "dropped": 0})
            if recipe.place.scheduling.startswith("staleness"):
                # Clocks are at most s apart: from a read to its update another worker goes from s behind to s ahead, at most.
                self.assertLessEqual(staleness["max"], (WORKERS - 1) * (2 * recipe.key("staleness") + 1))
            if "quorum" not in recipe.place.scheduling:
                self.assertEqual(staleness["dropped"], 0)
        self.for_each("out of step", expect)


if __name__ == "__main__":
    unittest.main()
