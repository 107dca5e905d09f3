"""Time to a test accuracy of the cnn on 4 hosts of the test cluster: PyTorch DDP over Gloo, dense and with its hooks, and presets that compress
gradients. All train from the same weights, on the same batches, with the same rates; each trains until its own tests reach the target.

These runs are the same wherever they run. So the quick form learns on one host how many samples reach the target, and from some steps in the cluster how
long they take; tests on the way of these must come to the same accuracies as on one host. With --full the cluster trains to the target."""
import dataclasses
import json

import harness.preset as preset_run
from harness import equal
from harness.cluster import Cluster, NoCluster
from harness.rows import Row, claim
from harness.stream import stream_bandwidth
from harness.training import FORMATS, PARAMETERS, Ddp, Weights

PACKAGES = ("python3-torch", "python3-numpy", "libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev", "iproute2")
PATHS = ("src", "apps/taxon", "recipes/systems", "bench/time_to_accuracy.py", "bench/harness", "bench/bounds", "bench/peers/ddp.py",
         "bench/peers/order.py", "tools/lab")
HOSTS, CORES, BATCH = 4, 0.45, 128
FORMAT_SAMPLES = 4500  # that say which order of images in memory is faster
RATES = {"1gbit": 2.5, "100mbit": 10}  # how many times sooner than dense DDP the best preset should be
DENSE = "DDP"
CODEC = "exchange.levels.0.codec."


@dataclasses.dataclass(frozen=True)
class Goal:
    """`test_every`, `timed`: training samples. Time is that of the first test that reaches the target. Where `timed` is 0 the cluster trains until then."""
    target: float
    test_every: int
    test_samples: int
    timed: int


GOALS = {"smoke": Goal(0.88, 384, 200, 768), "quick": Goal(0.88, 1500, 10000, 4500), "full": Goal(0.88, 1500, 10000, 0)}


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    hook: str


@dataclasses.dataclass(frozen=True)
class Preset:
    name: str
    recipe: str
    overrides: tuple = ()
    quick: bool = True  # in quick runs too


PEERS = (Peer(DENSE, "none"), Peer("DDP, fp16 hook", "fp16"), Peer("DDP, PowerSGD hook", "powersgd"))
DENSE_RECIPE, BY_SIZE = "horovod", "exchange.levels.0.collective=auto"
# Warm-up densities of 0.25 send as much as dense gradients, or more, in the steps that count here.
SPARSE_AT_ONCE = CODEC + "warmup_density=[]"
EVERY_4 = "exchange.levels.0.period=4"
PRESETS = (
    Preset("fp16", DENSE_RECIPE, (BY_SIZE, CODEC + "name=fp16")),
    Preset("int8", DENSE_RECIPE, (BY_SIZE, CODEC + "name=int8")),
    Preset("powersgd", "powersgd"),
    Preset("dgc, sparse at once", "dgc", (SPARSE_AT_ONCE,)),
    Preset("gs-sgd, smaller", "gs-sgd", (SPARSE_AT_ONCE, CODEC + "candidates=1", CODEC + "table=bfloat16", CODEC + "reuse=4")),
    Preset("gs-sgd-split", "gs-sgd-split"),
    Preset("ok-topk", "ok-topk"),
    Preset("sparse-loco", "sparse-loco"),
    Preset("diloco-int8", "diloco-int8"),
    Preset("local-sgd, 4 steps, packed", "local-sgd", (EVERY_4, CODEC + "name=packed_split_top_k", CODEC + "density=0.05")),
    Preset("local-sgd, 4 steps, PowerSGD", "local-sgd", (EVERY_4, CODEC + "name=power_sgd", "exchange.slice_bytes=1GiB")),
    Preset("dgc", "dgc", quick=False),
    Preset("gs-sgd", "gs-sgd", quick=False),
    Preset("topk", "topk", quick=False),
    Preset("qsgd", "qsgd", quick=False),
)


def targets(peers_only):
    return ["bench_tcp_stream"] if peers_only else ["taxon", "bench_tcp_stream"]


def row_of(session, rate, name):
    goal = GOALS[session.mode]
    return Row("time-to-accuracy", f"{rate} {name}, {100 * goal.target:g} %", transport="tcp", ranks=HOSTS, bytes=4 * PARAMETERS, peer=DENSE)


def race_of_peer(session, cluster, peer, most=0, memory_format="channels_last", weights="", test_every=0):
    goal = GOALS[session.mode]
    options = {"hook": peer.hook, "target": goal.target, "test_every": test_every or goal.test_every, "test_samples": goal.test_samples, "most_samples": most, "batch": BATCH,
               "memory_format": memory_format, "weights": weights}
    with Ddp(session, HOSTS, cluster=cluster, threads=1) as ddp:  # as presets
        return ddp.side.ask("race " + json.dumps(options), timeout=7200)


def race_of_preset(session, cluster, preset, most=0, memory_format="channels_last", weights=""):
    """As race_of_peer() answers, and bytes and compute of a step."""
    goal = GOALS[session.mode]
    overrides = [*preset.overrides, f"model.memory_format={memory_format}", "report.metrics_steps=1", f"batch.global={BATCH}", f"data.test_limit={goal.test_samples}", f"evaluation.every_epochs={goal.test_every / 60000}"]

    def enough(tests):
        return preset_run.first_reaching(tests, goal.target) is not None or (tests and 0 < most <= tests[-1]["samples"])

    summary, tests = preset_run.train(session, preset.recipe, HOSTS, cluster, overrides, enough)
    return {"steps": summary["steps"], "tests": tests, "parameters": summary["parameters"], "step_ms": summary["step_ms"]["p50"],
            "compute_ms": summary["compute_ms"], "bytes_sent_per_step": summary["bytes_sent_per_step"], "first_loss": summary["first_loss"]}


def seconds_per_sample(timed):
    first, last = (timed["tests"][at] for at in (0, -1))
    return (last["seconds"] - first["seconds"]) / (last["samples"] - first["samples"])  # what begins and warms up is in the first part


def raced(session, cluster, race, side, learnt, weights):
    """A race in the cluster, with the faster order of images in memory, to the target, or as far as it is timed and from there as on one host: `learnt`,
    by side and format, which the first cluster fills."""
    goal = GOALS[session.mode]
    timed = {memory_format: race(session, cluster, side, goal.timed or FORMAT_SAMPLES, memory_format, weights) for memory_format in FORMATS}
    speed = {memory_format: seconds_per_sample(one) for memory_format, one in timed.items()}
    best = min(speed, key=speed.get)
    about = {"formats": {memory_format: 1e3 * BATCH * one for memory_format, one in speed.items()}, "format": best}
    if goal.timed == 0:
        return race(session, cluster, side, 0, best, weights) | about | {"verified": True}
    if (side.name, best) not in learnt:
        learnt[side.name, best] = race(session, None, side, goal.timed if session.smoke() else 0, best, weights)["tests"]
    whole = [test | {"seconds": speed[best] * test["samples"]} for test in learnt[side.name, best]]
    here = {test["samples"]: test["accuracy/test"] for test in whole}
    return timed[best] | about | {"tests": whole, "verified": all(here.get(test["samples"]) == test["accuracy/test"] for test in timed[best]["tests"])}


def reached(session, race):
    return preset_run.first_reaching(race["tests"], GOALS[session.mode].target)


def filled(session, row, race, rate):
    """What both sides' rows say."""
    test = reached(session, race)
    goal = GOALS[session.mode]
    row.unit = "s"
    # Somebody who never came there is a result; tests of something else are none.
    begins = [known.settings["first_loss"] for known in session.rows.rows if "first_loss" in known.settings]
    row.verified = (race["parameters"] == PARAMETERS and len(race["tests"]) > 0 and race["verified"]
                    and all(equal.same([race["first_loss"]], [first]) for first in begins))  # the same weights and the same batch
    row.settings = {"network": "emulated", "rate": rate, "cores_per_host": CORES, "batch": BATCH, "target": goal.target, "tests_every": goal.test_every,
                    "test_samples": goal.test_samples, "reached": test is not None, "samples": test and test["samples"],
                    "accuracy": test and test["accuracy/test"], "best_accuracy": max((t["accuracy/test"] for t in race["tests"]), default=None)}
    row.settings |= {"first_loss": race["first_loss"], "format": race["format"], "ms_per_step_by_format": race["formats"]}
    last = race["tests"][-1]
    row.settings["ms_per_step"] = 1e3 * last["seconds"] / (last["samples"] / BATCH)
    return test["seconds"] if test else None


def run_peers(session, cluster, rate, learnt, weights):
    # Whoever is chosen, dense DDP is what stands beside it.
    wanted = [peer for peer in PEERS if not session.rows.has(row_of(session, rate, peer.name))]
    presets = any(not session.rows.has(row_of(session, rate, preset.name)) for preset in PRESETS if preset.quick or not session.quick())
    missing = [peer for peer in PEERS if peer in wanted or (peer.name == DENSE and presets and not session.rows.find(row_of(session, rate, DENSE)))]
    for peer in missing:
        row = row_of(session, rate, peer.name)
        race = raced(session, cluster, race_of_peer, peer, learnt, weights)
        row.theirs = filled(session, row, race, rate)
        if dense := seconds_of(session.rows.rows, session, rate, DENSE):
            row.settings["sooner_than_dense"] = dense / row.theirs if row.theirs else None
        session.rows.add(row)


def seconds_of(rows, session, rate, name):
    known = next((row for row in rows if row.key() == row_of(session, rate, name).key()), None)
    return known and known.theirs


def run_presets(session, cluster, rate, bandwidth, learnt, weights):
    theirs = {peer.name: seconds_of(session.rows.rows, session, rate, peer.name) for peer in PEERS}
    for preset in PRESETS:
        row = row_of(session, rate, preset.name)
        if session.rows.has(row) or not (preset.quick or not session.quick()) or (session.smoke() and preset != PRESETS[0]):
            continue
        race = raced(session, cluster, race_of_preset, preset, learnt, weights)
        row.ours, row.theirs = filled(session, row, race, rate), theirs[DENSE]
        wire = race["bytes_sent_per_step"] / bandwidth
        row.settings |= {key: race[key] for key in ("step_ms", "compute_ms", "bytes_sent_per_step")} | {"wire_ms": 1e3 * wire}
        if row.ours:
            row.bound = row.settings["samples"] / BATCH * max(wire, race["compute_ms"] / 1e3)
            row.of_bound = row.bound / row.ours
            row.settings["sooner_than"] = {name: seconds / row.ours for name, seconds in theirs.items() if seconds}
            row.ratio = row.theirs / row.ours if row.theirs else None
        session.rows.add(row)


def run(session):
    learnt = {}
    try:
        for rate in RATES:
            if not any(session.rows.wants(row_of(session, rate, side.name).case) for side in (*PEERS, *PRESETS)):
                continue
            with Weights(session) as weights, Cluster(HOSTS, rate, CORES) as cluster:
                bandwidth = stream_bandwidth(session, cluster)
                run_peers(session, cluster, rate, learnt, weights)
                if not session.peers_only:
                    run_presets(session, cluster, rate, bandwidth, learnt, weights)
    except NoCluster as error:
        session.skip("the test cluster", error)


def line_of(row):
    at = row.settings
    seconds = row.ours if "step_ms" in at else row.theirs  # a peer's row has no side of ours
    took = f"{seconds:7.1f} s, {at['samples']:6d} samples, {100 * at['accuracy']:.1f} %" if at["reached"] else f"never; best {100 * at['best_accuracy']:.1f} %"
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
