"""Time to 88 % test accuracy on slow links: presets whose replicas meet now and then against dense synchronous training, by Taxon and by PyTorch DDP.

Whoever keeps step trains the same bit for bit wherever it runs. So how many samples reach the target is learnt on one host, and how long they take
from steps in the test cluster, as many for each side, from the same weights, in turns. These must come to what as many steps on one host come to."""
import dataclasses
import statistics

import harness.preset as preset_run
import time_to_accuracy as races
from harness import pairs
from harness.cluster import Cluster, NoCluster
from harness.rows import Row, claim
from harness.stream import stream_bandwidth
from harness.training import SEED, Weights

PACKAGES = races.PACKAGES
PATHS = ("src", "apps/taxon", "recipes/systems", "bench/slow_links.py", "bench/time_to_accuracy.py", "bench/harness", "bench/bounds", "bench/peers/ddp.py",
         "bench/peers/order.py", "tools/lab")
HOSTS, RATE, CORES = races.HOSTS, "100mbit", races.CORES
TARGET = races.GOALS["full"].target
WANTED = 8
# A multiple of the presets' periods, and turns.
STEPS, TURNS = {"smoke": 8, "quick": 50, "full": 200}, {"smoke": 1, "quick": 3, "full": 3}
FORMAT = "channels_last"  # of images in memory, the faster one of all sides
DDP, DENSE = "PyTorch DDP", "horovod"
# Races are kept by a preset's name, so that says what differs from the recipe.
PRESETS = tuple(races.Preset(f"{recipe}, ring", recipe, ("exchange.levels.0.collective=ring",)) for recipe in (DENSE, "local-sgd", "cntk-bmuf", "diloco"))


def targets(peers_only):
    return ["bench_tcp_stream"] if peers_only else ["taxon", "bench_tcp_stream"]


@dataclasses.dataclass
class Timed:
    """Steps in the cluster, or here."""
    samples_per_second: float
    result: object  # what they came to; equal results are equal runs
    parameters: int
    bytes_sent: float = None  # of a worker in a step
    compute: float = None  # seconds of a step


class OfDdp:
    name, side = DDP, races.PEERS[0]

    def timed(self, session, cluster, steps, weights):
        race = races.race_of_peer(session, cluster, self.side, races.Run(SEED, FORMAT, steps * races.BATCH), weights)
        last = race["tests"][-1]
        return Timed(last["samples"] / last["seconds"], [test["accuracy/test"] for test in race["tests"]], race["parameters"])


class OfTaxon:
    def __init__(self, preset):
        self.name, self.side = preset.recipe, preset

    def timed(self, session, cluster, steps, _):
        length = (f"length.steps={steps}", "length.epochs=0", "evaluation.every_epochs=0", "data.test_limit=100")
        settings = (f"seed={SEED}", f"model.memory_format={FORMAT}", f"batch.global={races.BATCH}", *self.side.overrides)
        summary, _ = preset_run.train(session, self.side.recipe, HOSTS, cluster, [*settings, *length])
        return Timed(summary["samples_per_second"], summary["parameter_hash"], summary["parameters"], summary["bytes_sent_per_step"],
                     summary["compute_ms"] / 1e3)


def row_of(name):
    return Row("slow-links", name, transport="tcp", ranks=HOSTS, peer=DDP)


def fill(row, session, side, runs, bandwidth, weights):
    """`runs`: of the side, in turns."""
    here = side.timed(session, None, STEPS[session.mode], weights)
    tests = races.learnt(session, side.side, races.Run(SEED, FORMAT, races.GOALS[session.mode].most), weights)["tests"]
    reached = preset_run.first_reaching(tests, TARGET)
    samples = reached["samples"] if reached else None
    rates = [run.samples_per_second for run in runs]
    row.unit, row.bytes, row.spread = "s", 4 * here.parameters, pairs.relative_spread(rates)
    row.verified = all(run.result == here.result for run in runs)
    seconds = samples / statistics.median(rates) if samples else None
    if side.name == DENSE and samples:
        wire = 2 * (HOSTS - 1) / HOSTS * row.bytes / bandwidth
        row.bound = samples / races.BATCH * max(wire, statistics.median(run.compute for run in runs))
        row.of_bound = row.bound / seconds
    row.settings = {"network": "emulated", "rate": RATE, "cores_per_host": CORES, "target": TARGET, "samples": samples, "steps": STEPS[session.mode],
                    "runs": len(runs), "batch": races.BATCH, "samples_per_second": statistics.median(rates), "bytes_sent_per_step": runs[0].bytes_sent,
                    "seconds": seconds, "best_accuracy": max((test["accuracy/test"] for test in tests), default=None)}
    return row


def run(session):
    with Weights(session, seed=SEED) as path:
        run_all(session, {SEED: path})


def run_all(session, weights):
    sides = [OfDdp()] + ([] if session.peers_only else [OfTaxon(preset) for preset in PRESETS])
    # The dense sides are what the others are compared with, whoever is chosen.
    missing = [side for side in sides if not session.rows.has(row_of(side.name))]
    if not missing:
        return
    measured = [side for side in sides if side in missing or side.name in (DDP, DENSE)]
    try:
        with Cluster(HOSTS, RATE, CORES) as cluster:
            bandwidth = stream_bandwidth(session, cluster)
            turns = {side.name: lambda side=side: side.timed(session, cluster, STEPS[session.mode], weights) for side in measured}
            runs = pairs.take_turns(turns, TURNS[session.mode])
    except NoCluster as error:
        session.skip("the test cluster", error)
        return
    filled = {side.name: fill(row_of(side.name), session, side, runs[side.name], bandwidth, weights) for side in measured}
    seconds = {name: row.settings["seconds"] for name, row in filled.items()}
    for side in missing:
        row = filled[side.name]
        row.theirs = seconds[DDP]
        if side.name != DDP:
            row.ours = seconds[side.name]
            row.ratio = row.theirs / row.ours if row.theirs and row.ours else None
            row.settings["sooner_than_horovod"] = seconds[DENSE] / row.ours if seconds[DENSE] and row.ours else None
        session.rows.add(row)


def claims(rows):
    """Against the better of the two dense sides, of those that arrived. A preset that never did was not sooner than anybody."""
    def times_sooner(row):
        than = [times for times in (row.ratio, row.settings["sooner_than_horovod"]) if times]
        return min(than, default=None) if row.ours else 0

    sooner = [times_sooner(row) for row in rows if row.case not in (DDP, DENSE)]
    return [claim("slow-links", "times sooner than dense training, the best preset", sooner, max, at_least=WANTED)]


def summary(rows):
    lines = []
    for row in rows:
        at = row.settings
        took = f"{at['seconds']:.0f} s to {100 * TARGET:g} %" if at.get("seconds") else f"never reached {100 * TARGET:g} %"
        sent = f", {at['bytes_sent_per_step'] / 2**20:.2f} MiB a step and worker" if at.get("bytes_sent_per_step") else ""
        lines.append(f"{row.case:12} {took} ({at['samples_per_second']:.0f} samples/s{sent})" + (f", {row.ratio:.1f}x sooner than DDP" if row.ratio else ""))
    return [*lines, "hosts and links are emulated"]
