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
from harness.training import Weights

PACKAGES = races.PACKAGES
PATHS = ("src", "apps/taxon", "recipes/systems", "bench/slow_links.py", "bench/time_to_accuracy.py", "bench/harness", "bench/bounds", "bench/peers/ddp.py",
         "bench/peers/order.py", "tools/lab")
HOSTS, RATE, CORES = races.HOSTS, "100mbit", races.CORES
TARGET = 0.88
WANTED = 8
# A multiple of the presets' periods, and turns.
STEPS, TURNS = {"smoke": 8, "quick": 50, "full": 200}, {"smoke": 1, "quick": 3, "full": 5}


@dataclasses.dataclass(frozen=True)
class Preset:
    name: str


DDP, DENSE = "PyTorch DDP", "horovod"
PRESETS = (Preset(DENSE), Preset("local-sgd"), Preset("cntk-bmuf"), Preset("diloco"))


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
    name = DDP

    def __init__(self, weights):
        self.weights = weights

    def timed(self, session, cluster, steps):
        race = races.race_of_peer(session, cluster, races.PEERS[0], steps * races.BATCH, weights=self.weights, test_every=steps * races.BATCH)
        last = race["tests"][-1]
        return Timed(last["samples"] / last["seconds"], [test["accuracy/test"] for test in race["tests"]], race["parameters"])

    def tests(self, session):
        most = 8 * races.BATCH if session.smoke() else 0
        return races.race_of_peer(session, None, races.PEERS[0], most, weights=self.weights)["tests"]


class OfTaxon:
    def __init__(self, name):
        self.name = name

    def train(self, session, cluster, overrides):
        return preset_run.train(session, self.name, HOSTS, cluster, ["exchange.levels.0.collective=ring", f"batch.global={races.BATCH}", *overrides])

    def timed(self, session, cluster, steps):
        summary, _ = self.train(session, cluster, [f"length.steps={steps}", "length.epochs=0", "evaluation.every_epochs=0", "data.test_limit=100"])
        return Timed(summary["samples_per_second"], summary["parameter_hash"], summary["parameters"], summary["bytes_sent_per_step"],
                     summary["compute_ms"] / 1e3)

    def tests(self, session):
        length = ["length.epochs=0", f"length.samples={8 * races.BATCH}", "learning_rate.warmup_samples=100", "data.test_limit=100"] if session.smoke() else ["evaluation.every_epochs=0.1"]
        return self.train(session, None, length)[1]


def row_of(name):
    return Row("slow-links", name, transport="tcp", ranks=HOSTS, peer=DDP)


def fill(row, session, side, runs, bandwidth):
    """`runs`: of the side, in turns."""
    here = side.timed(session, None, STEPS[session.mode])
    tests = side.tests(session)
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
    with Weights(session) as weights:
        run_all(session, weights)


def run_all(session, weights):
    sides = [OfDdp(weights)] + ([] if session.peers_only else [OfTaxon(preset.name) for preset in PRESETS])
    # The dense sides are what the others are compared with, whoever is chosen.
    missing = [side for side in sides if not session.rows.has(row_of(side.name))]
    if not missing:
        return
    measured = [side for side in sides if side in missing or side.name in (DDP, DENSE)]
    try:
        with Cluster(HOSTS, RATE, CORES) as cluster:
            bandwidth = stream_bandwidth(session, cluster)
            turns = {side.name: lambda side=side: side.timed(session, cluster, STEPS[session.mode]) for side in measured}
            runs = pairs.take_turns(turns, TURNS[session.mode])
    except NoCluster as error:
        session.skip("the test cluster", error)
        return
    filled = {side.name: fill(row_of(side.name), session, side, runs[side.name], bandwidth) for side in measured}
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
