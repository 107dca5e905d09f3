"""Layers of a network split over groups of ranks, as PCL-DNN does (Das et al., arXiv 1602.06709): what a rank sends for each layer against the balance
equations of docs/parallelism.md, whether the number of groups that sends least, and that steps soonest, is the predicted one, and how near part-reduce and
part-broadcast come to their bound between hosts.

Four ranks in G groups of T = 4/G. What a rank sends for a layer is what its trace has of the layer's collectives; that all of them together are what the
transport counted verifies it."""
import dataclasses
import functools
import json
import os
import random
import re
import statistics
import tempfile

from harness import pairs
from harness.build import ROOT
from harness.cluster import Cluster, NoCluster
from harness.group import run_group
from harness.rows import Row, claim
from harness.side import Side
from harness.stream import stream_bandwidth
from harness.training import commands_for, job_environments

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "libucx-dev", "libopenmpi-dev", "libgloo-dev", "iproute2")
PATHS = ("src", "apps/taxon", "bench/hybrid.py", "bench/harness", "bench/ours/collectives.cc", "bench/ours/rank.cc", "bench/ours/rank.h", "bench/side",
         "bench/bounds", "bench/recipes/cd-dnn.yaml", "tools/lab")
RECIPE = os.path.join(ROOT, "bench", "recipes", "cd-dnn.yaml")
RANKS, LAYERS, NUMBER = 4, 8, 4  # bytes of a number
PUBLISHED_WIDTH = 2048  # of cd-dnn
WIDTH = {"smoke": 128, "quick": 512, "full": 512}
# Of a step, as parts of the width: by these the fewest bytes are those of one group, of two, and of four.
BATCHES = {"a quarter of the width": 0.25, "the width": 1, "four times the width": 4}
BYTE_STEPS = 3
LAB_RATE, LAB_CORES, LAB_STEPS = "1gbit", 0.45, {"smoke": (3, 1), "quick": (8, 3), "full": (30, 7)}  # steps, and turns
WITHIN, COUNTED_WITHIN = 0.02, 0.005
PART_BYTES = {"smoke": (2**20,), "quick": (2**22, 2**24), "full": (2**22, 2**24, 2**26)}
PARTS = {"part-reduce": "reduce_scatter", "part-broadcast": "all_gather"}
LAB_PORT = 29540


def targets(peers_only):
    return ["taxon", "bench_taxon_collectives", "bench_tcp_stream"]


# ---- the closed form -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Layer:
    """`weights`: biases included."""
    inputs: int
    weights: int


def balance(layer, batch, groups, ranks=RANKS):
    """Comm(G) as docs/parallelism.md has it: the limit for groups, and numbers of groups, that are large."""
    sent = 2 * NUMBER * layer.inputs * batch / groups if groups < ranks else 0
    return sent + (2 * NUMBER * layer.weights * groups / ranks if groups > 1 else 0)


def sent_by(layer, batch, groups, ranks=RANKS):
    """Comm(G) where each of a collective's n members sends (n-1)/n of its bytes, as the best algorithms do."""
    members = ranks // groups
    gathered = 2 * NUMBER * layer.inputs * batch / groups * (members - 1) / members
    return gathered + 2 * NUMBER * layer.weights / members * (groups - 1) / groups


def best_groups(layers, batch, form=sent_by, ranks=RANKS):
    """The divisor of `ranks` with the fewest bytes of all layers together; of equal ones the most groups, which split less."""
    divisors = [groups for groups in range(1, ranks + 1) if ranks % groups == 0]
    return min(reversed(divisors), key=lambda groups: sum(form(layer, batch, groups) for layer in layers))


# ---- what was sent -------------------------------------------------------------------------------------------------

PIECE_UNIT, SUMMAND_UNIT = 0x78000000, 0x7C000000  # src/train/units.h
# Of a collective's bytes, what each of n members sends.
SHARES = {"all_gather": lambda n: (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n, "all_reduce": lambda n: 2 * (n - 1) / n}
BEHIND = "behind the last layer"


def layer_names():
    return [f"fc{number}" for number in range(1, LAYERS + 1)]


def pieces(by_samples):
    """Layers by the movement in front of them. Those by samples, which are the first, are one piece: nothing travels between them."""
    return [*by_samples[-1:], *(name for name in layer_names() if name not in by_samples), BEHIND]


def place_of(name, unit, by_samples=()):
    """(layer, whether the tensor axis carries it) of a span of the trace; None: of no layer. A piece's gather is for the layer behind it, its reduction
    of its own inputs' gradients. Gradients of layers by samples are summands: their numbers count tensors from the last layer's bias on."""
    if isinstance(unit, str):
        bucket = re.fullmatch(r"bucket \d+ \((fc\d+)\.\w+\)", unit)
        return (bucket.group(1), False) if bucket else None
    if unit is None or unit < PIECE_UNIT:
        return None
    if unit >= SUMMAND_UNIT:
        return by_samples[-1 - (unit - SUMMAND_UNIT) // 2], True
    return pieces(by_samples)[unit - PIECE_UNIT + name.startswith("all_gather")], True


def sent_by_layer(trace, groups, steps, by_samples=()):
    """Bytes that rank 0 sends in a training step, by layer. Passes that evaluate gather as well: a gather counts as often as gradients were reduced."""
    members = RANKS // groups
    found = {}
    for event in trace["traceEvents"]:
        if event.get("pid") != 0 or event.get("ph") != "X" or "bytes" not in event.get("args", {}):
            continue
        collective = event["name"].split()[0]
        if collective not in SHARES:
            continue
        place = place_of(event["name"], event["args"].get("unit"), by_samples)
        if place:
            layer, on_tensor_axis = place
            found.setdefault((layer, event["args"]["unit"], collective), []).append(event["args"]["bytes"] * SHARES[collective](members if on_tensor_axis else groups))
    sent = dict.fromkeys([*layer_names(), BEHIND], 0.0)
    for (layer, _, _), bytes_of in found.items():
        sent[layer] += sum(bytes_of[:steps])
    return {layer: total / steps for layer, total in sent.items()}


# ---- runs ----------------------------------------------------------------------------------------------------------


def write_samples(folder, features, count):
    """Tables of small whole numbers, with as many classes as features, so that all layers have one shape."""
    draw = random.Random(1)
    for name, rows in (("train", count), ("test", features)):
        with open(os.path.join(folder, f"{name}.csv"), "w") as file:
            for i in range(rows):
                print(*(draw.randrange(100) for _ in range(features)), i % features, sep=",", file=file)


@dataclasses.dataclass(frozen=True)
class Case:
    width: int
    batch: int
    groups: int
    by_samples: tuple = ()  # layers that members have whole, each for its samples

    def layers(self):
        return [Layer(self.width, self.width * self.width + self.width)] * LAYERS

    def overrides(self):
        members = RANKS // self.groups
        splits = ", ".join(f"{layer}={'samples' if layer in self.by_samples else 'outputs'}" for layer in layer_names())
        return [f"mesh.tensor={members}", *([f"mesh.splits=[{splits}]"] if members > 1 else [])]


def train(session, case, data, steps, cluster=None, *more):
    """The run's summary and its trace, if one was asked for."""
    sets = ["data.dataset=csv", f"data.path={data}", "threads=1", f"length.steps={steps}", f"batch.global={case.batch}", f"model.width_multiplier={case.width / PUBLISHED_WIDTH}",
            "learning_rate.base=0.001", "data.test_limit=1", "report.tensorboard=false", "checkpoint.every_epochs=0", "transport.kind=tcp",
            "exchange.levels.0.collective=ring", *case.overrides(), *more]
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
        command = [session.program("taxon"), "train", RECIPE, "--out", out, *(word for one in sets for word in ("--set", one))]
        commands = commands_for(RANKS, cluster, command)
        run_group(f"hybrid {case.batch} {case.groups}", commands, job_environments(RANKS, cluster, "Taxon"), session.log_folder, timeout=900)
        with open(os.path.join(out, "summary.json")) as file:
            summary = json.load(file)
        trace = os.path.join(out, "trace.json")
        if not os.path.exists(trace):
            return summary, None
        with open(trace) as file:
            return summary, json.load(file)


def sent(session, case, data):
    """(bytes of a step by layer, whether they are all that the transport counted). A tensor is a bucket, so that buckets are of layers."""
    summary, trace = train(session, case, data, BYTE_STEPS, None, "report.trace=true", "exchange.bucket_bytes=1", "exchange.slice_bytes=1GiB")
    by_layer = sent_by_layer(trace, case.groups, BYTE_STEPS, case.by_samples)
    return by_layer, abs(sum(by_layer.values()) / summary["bytes_sent_per_step"] - 1) <= COUNTED_WITHIN


def form_row(case, what, peer="Comm(G)"):
    whole = f"{case.groups} groups of {RANKS // case.groups}" + (f", {' and '.join(case.by_samples)} by samples" if case.by_samples else "")
    return Row("hybrid", f"batch {case.batch}, {whole}: {what}", "tcp", RANKS, peer=peer, unit="bytes")


def add_form_row(session, case, what, ours, theirs, verified, limit):
    row = form_row(case, what)
    row.ours, row.theirs, row.verified = ours, theirs, verified
    row.ratio = theirs / ours if ours else None
    row.settings = {"of_the_form": ours / theirs if theirs else 1 + ours, "limit_of_the_form": limit, "width": case.width}
    session.rows.add(row.want("of_the_form", at_least=1 - WITHIN, at_most=1 + WITHIN))


def add_form_rows(session, case, by_layer, verified):
    """The layers that are alike in one row, by the one that is farthest from the form."""
    layer = case.layers()[0]
    if case.by_samples:
        # Data parallelism of all ranks is what such a layer has in the form.
        for name in case.by_samples:
            add_form_row(session, case, name, by_layer[name], sent_by(layer, case.batch, RANKS), verified, balance(layer, case.batch, RANKS))
        return
    form, limit = sent_by(layer, case.batch, case.groups), balance(layer, case.batch, case.groups)
    # Samples are the first layer's inputs: every member reads them, and nobody asks for their gradients.
    first = Layer(0, layer.weights)
    add_form_row(session, case, "fc1, its weights alone", by_layer["fc1"], sent_by(first, case.batch, case.groups), verified, balance(first, case.batch, case.groups))
    farthest = max((by_layer[name] for name in layer_names()[1:]), key=lambda sent: abs(sent / form - 1))
    add_form_row(session, case, f"each of fc2 to fc{LAYERS}", farthest, form, verified, limit)
    if case.groups < RANKS:
        row = form_row(case, "logits, gathered for the loss", peer="not in the form")
        row.ours, row.theirs, row.verified = by_layer[BEHIND], 0, verified
        session.rows.add(row)


def best_row(batch, what):
    return Row("hybrid", f"batch {batch}: groups {what}", "tcp", RANKS, peer="predicted", unit="groups")


def add_best_row(session, row, figures, layers, batch, verified, settings):
    """`figures`: of each number of groups, the less the better."""
    row.ours, row.theirs = min(figures, key=figures.get), best_groups(layers, batch)
    row.verified = verified
    row.settings = {"figures": figures, "predicted_by_the_limit": best_groups(layers, batch, balance), **settings}
    session.rows.add(row.want("ours", at_least=row.theirs, at_most=row.theirs))


GROUPS = (1, 2, 4)


def cases_of(width, batch, with_forms):
    """Every number of groups; where layers are looked at one by one, two that are data parallel inside groups as well."""
    mixed = [Case(width, batch, 2, ("fc1", "fc2"))] if with_forms else []
    return [*(Case(width, batch, groups) for groups in GROUPS), *mixed]


def run_bytes(session, folder, width):
    for words, part in BATCHES.items():
        batch = int(width * part)
        if session.rows.has(best_row(batch, "with the fewest bytes")):
            continue
        found = {case: sent(session, case, folder) for case in cases_of(width, batch, with_forms=part == 1)}
        for case, (by_layer, verified) in found.items() if part == 1 else ():
            add_form_rows(session, case, by_layer, verified)
        whole = {case.groups: one for case, one in found.items() if not case.by_samples}
        totals = {groups: sum(by_layer.values()) for groups, (by_layer, _) in whole.items()}
        add_best_row(session, best_row(batch, "with the fewest bytes"), totals, Case(width, batch, 1).layers(), batch, all(verified for _, verified in whole.values()),
                     {"width": width, "batch_is": words})


def run_times(session, folder, width, cluster):
    steps, rounds = LAB_STEPS[session.mode]
    for words, part in BATCHES.items():
        batch = int(width * part)
        row = best_row(batch, f"with the shortest step, lab {LAB_RATE}")
        if session.rows.has(row):
            continue
        runs = pairs.take_turns({groups: functools.partial(lambda one: train(session, Case(width, batch, one), folder, steps, cluster)[0], groups) for groups in GROUPS}, rounds)
        times = {groups: statistics.median(summary["step_ms"]["p50"] for summary in runs[groups]) for groups in GROUPS}
        # The algorithm is one and the same: so is what it learnt.
        losses = [summary["train_loss"] for found in runs.values() for summary in found]
        same = max(losses) - min(losses) <= 1e-3 * abs(losses[0])
        add_best_row(session, row, times, Case(width, batch, 1).layers(), batch, same,
                     {"network": "emulated", "cores_per_host": LAB_CORES, "unit_of_figures": "ms", "width": width, "batch_is": words, "steps": steps, "pairs": rounds,
                      "compute_ms": {groups: statistics.median(summary["compute_ms"] for summary in runs[groups]) for groups in GROUPS}})


def part_row(what, size):
    return Row("hybrid", f"{what}, lab {LAB_RATE}", "tcp", RANKS, size, peer="one plain TCP stream", unit="ms")


def run_parts(session, cluster):
    """(n-1)/n of the bytes leave every host: what a plain stream needs for these is the bound."""
    wanted = [(what, size) for what in PARTS for size in PART_BYTES[session.mode] if not session.rows.has(part_row(what, size))]
    if not wanted:
        return
    bandwidth, first = stream_bandwidth(session, cluster), cluster.addresses[0]
    words = ["--ranks", str(RANKS), "--host", first, "--port", str(LAB_PORT), "--job-port", str(LAB_PORT + 5), "--transport", "tcp"]
    commands = [cluster.command(rank, [session.program("bench_taxon_collectives"), "--rank", str(rank), *words]) for rank in range(RANKS)]
    with Side("parts lab", commands, session.log_folder, [{"TAXON_SECRET": "benchmark"}] * RANKS) as side:
        blocks = 1 if session.smoke() else 5 if session.quick() else 15
        for what, size in wanted:
            side.ask(f"run allreduce {size} 1 2 {PARTS[what]}")  # connects
            answer = side.ask(f"run allreduce {size} {blocks} 4 {PARTS[what]}")
            row = part_row(what, size)
            row.ours, row.theirs = statistics.median(answer["seconds"]) * 1e3, (RANKS - 1) / RANKS * size / bandwidth * 1e3
            row.ratio, row.bound, row.of_bound = row.theirs / row.ours, row.theirs, row.theirs / row.ours
            row.spread, row.verified = pairs.relative_spread(answer["seconds"]), answer["verified"]
            row.settings = {"network": "emulated", "algorithm": answer.get("detail"), "blocks": blocks, "stream_bytes_per_second": round(bandwidth)}
            session.rows.add(row.want("of_bound", at_least=0.95))


def run(session):
    if session.peers_only:
        return
    width = WIDTH[session.mode]
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
        write_samples(folder, width, int(width * max(BATCHES.values())))
        run_bytes(session, folder, width)
        try:
            with Cluster(RANKS, LAB_RATE, LAB_CORES) as cluster:
                run_times(session, folder, width, cluster)
            with Cluster(RANKS, LAB_RATE) as cluster:
                run_parts(session, cluster)
        except NoCluster as error:
            session.skip("the test cluster", error)


def claims(rows):
    of_the_form = [row.settings["of_the_form"] for row in rows if "of_the_form" in row.settings]
    yield claim("hybrid", "bytes of a layer over the closed form, farthest from 1", of_the_form, lambda found: max(found, key=lambda one: abs(one - 1)),
                at_least=1 - WITHIN, at_most=1 + WITHIN)
    yield claim("hybrid", "part-reduce and part-broadcast: lowest share of the bound", [row.of_bound for row in rows if row.unit == "ms"], min, at_least=0.95)


def summary(rows):
    return []
