"""Time to a test accuracy of the cnn on 4 hosts of the test cluster: PyTorch DDP over Gloo, dense and with its hooks, and presets that compress
gradients. All train from the same weights, on the same batches, with the same rates.

Synchronous runs are the same wherever they run. So how many samples reach the target is learnt on one host, for several seeds, and how long these
take by turns of all sides in the cluster. Each turn trains so far that no warm-up is left, and its tests must be those that were seen on one host."""
import contextlib
import dataclasses
import json
import os
import statistics

import harness.preset as preset_run
from harness import equal, ledger, pairs
from harness.cluster import Cluster, NoCluster
from harness.rows import Row, claim, is_known
from harness.stream import stream_bandwidth
from harness.training import FORMATS, PARAMETERS, Ddp, Weights

PACKAGES = ("python3-torch", "python3-numpy", "libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev", "iproute2")
PATHS = ("src", "apps/taxon", "recipes/systems", "bench/time_to_accuracy.py", "bench/harness", "bench/bounds", "bench/peers/ddp.py",
         "bench/peers/order.py", "tools/lab")
HOSTS, CORES, BATCH = 4, 0.45, 128
RATES = {"1gbit": 2.5, "100mbit": 10}  # how many times sooner than dense DDP the best preset should be
DENSE = "DDP"
CODEC = "exchange.levels.0.codec."


@dataclasses.dataclass(frozen=True)
class Goal:
    """`test_every`, `timed`: training samples. `timed` are what a turn trains in the cluster; by its second half, which has whole periods of the presets
    that meet now and then, and no step of a warm-up, the rest is timed. `most`: that are learnt; 0: until the target or the end."""
    seeds: tuple
    turns: int
    target: float = 0.88
    test_every: int = 3200
    test_samples: int = 10000
    timed: int = 12800
    most: int = 0


GOALS = {"smoke": Goal((1,), 1, test_every=384, test_samples=200, timed=768, most=768), "quick": Goal((1,), 1), "full": Goal((1, 2, 3), 3)}


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    hook: str


@dataclasses.dataclass(frozen=True)
class Preset:
    name: str
    recipe: str
    overrides: tuple = ()


PEERS = (Peer(DENSE, "none"), Peer("DDP, fp16 hook", "fp16"), Peer("DDP, PowerSGD hook", "powersgd"))
DENSE_RECIPE, BY_SIZE = "horovod", "exchange.levels.0.collective=auto"
# Warm-up densities of 0.25 send as much as dense gradients, or more, in a third of the steps that count here.
SPARSE_AT_ONCE = CODEC + "warmup_density=[]"
EVERY_4 = "exchange.levels.0.period=4"
PRESETS = (
    Preset("fp16", DENSE_RECIPE, (BY_SIZE, CODEC + "name=fp16")),
    Preset("int8", DENSE_RECIPE, (BY_SIZE, CODEC + "name=int8")),
    Preset("powersgd", "powersgd"),
    Preset("dgc, sparse at once", "dgc", (SPARSE_AT_ONCE,)),
    Preset("gs-sgd-split", "gs-sgd-split"),
    Preset("ok-topk", "ok-topk"),
    Preset("sparse-loco", "sparse-loco"),
    Preset("diloco-int8", "diloco-int8"),
    Preset("local-sgd, 4 steps, packed", "local-sgd", (EVERY_4, CODEC + "name=packed_split_top_k", CODEC + "density=0.05")),
    Preset("local-sgd, 4 steps, PowerSGD", "local-sgd", (EVERY_4, CODEC + "name=power_sgd", "exchange.slice_bytes=1GiB")),
)


def targets(peers_only):
    return ["bench_tcp_stream"] if peers_only else ["taxon", "bench_tcp_stream"]


def row_of(session, rate, name):
    goal = GOALS[session.mode]
    return Row("time-to-accuracy", f"{rate} {name}, {100 * goal.target:g} %", transport="tcp", ranks=HOSTS, bytes=4 * PARAMETERS, peer=DENSE)


@dataclasses.dataclass(frozen=True)
class Run:
    """What a side trains: from which seed, with which order of images in memory, how many samples (0: to the end). It ends at the target anyway."""
    seed: int
    memory_format: str
    most: int = 0


def race_of_peer(session, cluster, peer, run, weights):
    goal = GOALS[session.mode]
    options = {"hook": peer.hook, "target": goal.target, "test_every": goal.test_every, "test_samples": goal.test_samples, "most_samples": run.most, "batch": BATCH,
               "memory_format": run.memory_format, "seed": run.seed, "weights": weights[run.seed]}
    with Ddp(session, HOSTS, cluster=cluster, threads=1) as ddp:  # as presets
        return ddp.side.ask("race " + json.dumps(options), timeout=7200)


def race_of_preset(session, cluster, preset, run, _):
    """As race_of_peer() answers, and bytes and compute of a step."""
    goal = GOALS[session.mode]
    overrides = [*preset.overrides, f"seed={run.seed}", f"model.memory_format={run.memory_format}", "report.metrics_steps=1", f"batch.global={BATCH}",
                 f"data.test_limit={goal.test_samples}", f"evaluation.every_epochs={goal.test_every / 60000}"]

    def enough(tests):
        return preset_run.first_reaching(tests, goal.target) is not None or (tests and 0 < run.most <= tests[-1]["samples"])

    summary, tests = preset_run.train(session, preset.recipe, HOSTS, cluster, overrides, enough)
    tests = tests[:next((at for at in range(len(tests)) if enough(tests[:at + 1])), len(tests)) + 1]  # not those of the moment in which it was ended
    return {"steps": summary["steps"], "tests": tests, "parameters": summary["parameters"], "step_ms": summary["step_ms"]["p50"],
            "compute_ms": summary["compute_ms"], "bytes_sent_per_step": summary["bytes_sent_per_step"], "first_loss": summary["first_loss"]}


def race_of(side):
    return race_of_peer if isinstance(side, Peer) else race_of_preset


def seconds_per_sample(tests):
    """Of the second half of a turn."""
    first, last = tests[(len(tests) - 1) // 2], tests[-1]
    return (last["seconds"] - first["seconds"]) / (last["samples"] - first["samples"])


def seconds_at(samples, tests):
    """Of as many samples, by a turn's tests: as measured up to its end, and from there as fast as its second half."""
    known = next((test for test in tests if test["samples"] == samples), None)
    return known["seconds"] if known else tests[-1]["seconds"] + (samples - tests[-1]["samples"]) * seconds_per_sample(tests)


def learnt(session, side, run, weights):
    """A race on one host. Those of the same code and weights are kept: together they take longer than all turns."""
    version = ledger.version_of(PATHS) if is_known(session.rows.kind.get("commit")) and not session.smoke() else None
    path = os.path.join(session.build_dir, "time-to-accuracy", version or "unknown", f"{session.mode}-{side.name}-{run.memory_format}-{run.seed}.json")
    if version and os.path.exists(path):
        with open(path) as file:
            return json.load(file)
    race = race_of(side)(session, None, side, run, weights)
    if version:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w") as file:
            json.dump(race, file)
        os.replace(path + ".new", path)
    return race


@dataclasses.dataclass
class Timed:
    """A side's turns in the cluster, each of the next seed, with the faster order of images in memory."""
    turns: list = dataclasses.field(default_factory=list)  # (Run, race)
    formats: dict = dataclasses.field(default_factory=dict)  # ms a step of the first turn by order
    best: str = ""

    def add(self, session, cluster, side, turn, weights):
        goal = GOALS[session.mode]
        tried = {}
        for memory_format in FORMATS if not self.best else (self.best,):
            run = Run(goal.seeds[turn % len(goal.seeds)], memory_format, goal.timed)
            tried[memory_format] = run, race_of(side)(session, cluster, side, run, weights)
        if not self.best:
            self.formats = {memory_format: 1e3 * BATCH * seconds_per_sample(race["tests"]) for memory_format, (_, race) in tried.items()}
            self.best = min(self.formats, key=self.formats.get)
        self.turns.append(tried[self.best])


def timed_in_turns(session, cluster, sides, weights):
    """By side's name. Whoever begins a turn changes."""
    timed = {side.name: Timed() for side in sides}
    by_name = {side.name: side for side in sides}
    pairs.take_turns({name: lambda name=name: timed[name].add(session, cluster, by_name[name], len(timed[name].turns), weights) for name in timed}, GOALS[session.mode].turns)
    return timed


def is_the_same(race, whole):
    """Whether a turn came to the tests that were seen on one host, and began with its loss."""
    seen = {test["samples"]: test["accuracy/test"] for test in whole["tests"]}
    return (race["parameters"] == PARAMETERS and len(race["tests"]) > 1 and equal.same([race["first_loss"]], [whole["first_loss"]])
            and all(seen.get(test["samples"]) == test["accuracy/test"] for test in race["tests"]))


def filled(session, row, side, timed, rate, weights):
    """What both sides' rows say. Seconds of each turn, the seeds' mean; None unless all seeds come to the target."""
    goal = GOALS[session.mode]
    row.unit = "s"
    whole = {seed: learnt(session, side, Run(seed, timed.best, goal.most), weights) for seed in goal.seeds}
    reached = {seed: preset_run.first_reaching(race["tests"], goal.target) for seed, race in whole.items()}
    # Somebody who never came there is a result; tests of something else are none. All sides begin with the same weights and the same batch.
    begins = [known.settings["first_loss"] for known in session.rows.rows if "first_loss" in known.settings]
    first_loss = whole[goal.seeds[0]]["first_loss"]
    row.verified = (all(is_the_same(race, whole[run.seed]) for run, race in timed.turns) and all(equal.same([first_loss], [first]) for first in begins))
    arrived = all(reached.values())
    row.settings = {"network": "emulated", "rate": rate, "cores_per_host": CORES, "batch": BATCH, "target": goal.target, "tests_every": goal.test_every,
                    "test_samples": goal.test_samples, "seeds": len(goal.seeds), "turns": goal.turns, "timed_samples": goal.timed, "reached": arrived,
                    "samples": [test and test["samples"] for test in reached.values()],
                    "best_accuracy": [max(test["accuracy/test"] for test in race["tests"]) for race in whole.values()], "first_loss": first_loss,
                    "format": timed.best, "ms_per_step_by_format": timed.formats,
                    "ms_per_step": 1e3 * BATCH * statistics.median(seconds_per_sample(race["tests"]) for _, race in timed.turns)}
    if not arrived:
        return None
    seconds = [[seconds_at(test["samples"], race["tests"]) for test in reached.values()] for _, race in timed.turns]
    middle = sorted(seconds, key=statistics.mean)[len(seconds) // 2]
    row.settings["seconds_by_seed"] = [round(value, 2) for value in middle]
    return [statistics.mean(one) for one in seconds]


def peer_row(session, side, timed, rate, weights):
    row = row_of(session, rate, side.name)
    turns = filled(session, row, side, timed, rate, weights)
    row.theirs = turns and statistics.median(turns)
    row.settings["seconds_by_turn"] = turns
    return row


def preset_row(session, side, timed, rate, bandwidth, peers, weights):
    row = row_of(session, rate, side.name)
    turns = filled(session, row, side, timed, rate, weights)
    row.ours, row.theirs = turns and statistics.median(turns), peers[DENSE].theirs
    races = [race for _, race in timed.turns]
    row.settings["seconds_by_turn"] = turns
    row.settings |= {key: statistics.median(race[key] for race in races) for key in ("step_ms", "compute_ms", "bytes_sent_per_step")}
    wire = row.settings["bytes_sent_per_step"] / bandwidth
    row.settings["wire_ms"] = 1e3 * wire
    if turns:
        row.bound = statistics.mean(row.settings["samples"]) / BATCH * max(wire, row.settings["compute_ms"] / 1e3)
        row.of_bound = row.bound / row.ours
        row.settings["sooner_than"] = {name: pairs.ratio(False, turns, peer.settings["seconds_by_turn"])[0] for name, peer in peers.items() if peer.theirs}
        if peers[DENSE].theirs:
            row.ratio, row.spread = pairs.ratio(False, turns, peers[DENSE].settings["seconds_by_turn"])
    return row


def run_rate(session, cluster, rate, weights):
    """Who is timed together is compared: presets are beside all peers."""
    bandwidth = stream_bandwidth(session, cluster)
    presets = [side for side in (() if session.peers_only else PRESETS[:1] if session.smoke() else PRESETS) if not session.rows.has(row_of(session, rate, side.name))]
    peers = [side for side in PEERS if presets or not session.rows.has(row_of(session, rate, side.name))]
    timed = timed_in_turns(session, cluster, [*peers, *presets], weights)
    rows = {}
    for side in peers:
        rows[side.name] = peer_row(session, side, timed[side.name], rate, weights)
        if rows[DENSE].theirs and rows[side.name].theirs:
            rows[side.name].settings["sooner_than_dense"] = rows[DENSE].theirs / rows[side.name].theirs
        session.rows.add(rows[side.name])
    for side in presets:
        session.rows.add(preset_row(session, side, timed[side.name], rate, bandwidth, rows, weights))


def run(session):
    try:
        for rate in RATES:
            if all(session.rows.has(row_of(session, rate, side.name)) for side in (*PEERS, *PRESETS)):
                continue
            with contextlib.ExitStack() as stack:
                weights = {seed: stack.enter_context(Weights(session, seed=seed)) for seed in GOALS[session.mode].seeds}
                run_rate(session, stack.enter_context(Cluster(HOSTS, rate, CORES)), rate, weights)
    except NoCluster as error:
        session.skip("the test cluster", error)


def line_of(row):
    at = row.settings
    seconds = row.ours if "step_ms" in at else row.theirs  # a peer's row has no side of ours
    best = " ".join(f"{100 * accuracy:.1f}" for accuracy in at["best_accuracy"])
    took = f"{seconds:7.1f} s, {' '.join(map(str, at['samples']))} samples" if at["reached"] else f"not by all seeds; best {best} %"
    sooner = at.get("sooner_than") or ({DENSE: at["sooner_than_dense"]} if at.get("sooner_than_dense") else {})
    times = "; sooner than " + ", ".join(f"{name} {ratio:.2f}x" for name, ratio in sooner.items()) if sooner else ""
    return f"  {row.case:36} {took}, {at['ms_per_step']:7.1f} ms a step{times}"


def summary(rows):
    lines = ["hosts and links are emulated; tests are not part of the time"]
    for rate in RATES:
        here = [row for row in rows if row.settings.get("rate") == rate]
        lines += [line_of(row) for row in here]
    return lines


def claims(rows):
    """Against dense DDP, and against the best of its hooks. A preset that never arrived was not sooner than anybody."""
    found = []
    for rate, wanted in RATES.items():
        here = [row for row in rows if row.settings.get("rate") == rate and "step_ms" in row.settings]
        peers = [row.theirs for row in rows if row.settings.get("rate") == rate and "step_ms" not in row.settings and row.theirs]
        hooks = [min(peers) / row.ours if row.ours else 0 for row in here if len(peers) > 1]  # with dense DDP alone nobody was asked
        found += [claim("time-to-accuracy", f"{rate}: times sooner than dense DDP, the best preset", [row.ratio if row.ours else 0 for row in here], max, at_least=wanted),
                  claim("time-to-accuracy", f"{rate}: times sooner than DDP's best hook, the best preset", hooks, max, at_least=2)]
    return found
