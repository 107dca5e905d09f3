"""Time to 88 % test accuracy on slow links: presets whose replicas meet now and then against dense synchronous training.

Synchronous runs are the same bit for bit wherever they run, so how many samples reach the target is learnt from a run on one host, and how long
they take from steps in the test cluster, whose parameters must equal those of as many steps on one host. With --full the cluster trains to the target.
"""
import dataclasses
import sys

import harness.preset as preset_run
from harness.cluster import Cluster, NoCluster
from harness.rows import Row
from harness.stream import stream_bandwidth

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev", "iproute2")
HOSTS, RATE, CORES = 4, "100mbit", 0.45
TARGET = 0.88
WANTED = 8


@dataclasses.dataclass(frozen=True)
class Preset:
    """`steps`: that are timed, a multiple of the period."""
    name: str
    steps: int


DENSE = Preset("horovod", 12)
PRESETS = (DENSE, Preset("local-sgd", 80), Preset("cntk-bmuf", 80), Preset("diloco", 100))


def targets(peers_only):
    return ["taxon", "bench_tcp_stream"]


def train(session, preset, cluster, overrides):
    return preset_run.train(session, preset.name, HOSTS, cluster, ["exchange.levels.0.collective=ring", *overrides])


def timed(session, preset, cluster):
    """Samples per second in the cluster, and whether it computed what one host computes."""
    overrides = [f"length.steps={preset.steps}", "length.epochs=0", "evaluation.every_epochs=0", "data.test_limit=100"]
    there, _ = train(session, preset, cluster, overrides)
    here, _ = train(session, preset, None, overrides)
    return there, there["parameter_hash"] == here["parameter_hash"]


def row_of(preset):
    return Row("slow-links", preset.name, transport="tcp", ranks=HOSTS, peer="dense synchronous")


def measure(session, preset, cluster, bandwidth):
    tests_on_the_way = ["evaluation.every_epochs=0.1"]
    there, equal = timed(session, preset, cluster)
    _, tests = train(session, preset, cluster if not session.quick() else None, tests_on_the_way)
    reached = preset_run.first_reaching(tests, TARGET)
    samples = reached["samples"] if reached else None
    row = row_of(preset)
    row.unit, row.bytes, row.verified = "s", 4 * there["parameters"], equal
    row.ours = samples / there["samples_per_second"] if samples else None
    batch = there["samples"] / there["steps"]
    wire = 2 * (HOSTS - 1) / HOSTS * row.bytes / bandwidth * (preset == DENSE)
    row.bound = samples / batch * max(wire, there["compute_ms"] / 1e3) if samples else None
    row.of_bound = row.bound / row.ours if samples else None
    row.settings = {"network": "emulated", "rate": RATE, "cores_per_host": CORES, "target": TARGET, "samples": samples, "timed_steps": preset.steps,
                    "samples_per_second": there["samples_per_second"], "bytes_sent_per_step": there["bytes_sent_per_step"],
                    "best_accuracy": max(test["accuracy/test"] for test in tests)}
    return row


def run(session):
    if session.peers_only:
        return
    try:
        with Cluster(HOSTS, RATE, CORES) as cluster:
            bandwidth = stream_bandwidth(session, cluster)
            for preset in PRESETS:
                if session.rows.has(row_of(preset)):
                    continue
                row = measure(session, preset, cluster, bandwidth)
                dense = next((known for known in session.rows.rows if known.case == DENSE.name), row)
                row.theirs = dense.ours
                row.ratio = dense.ours / row.ours if dense.ours and row.ours else None
                session.rows.add(row)
    except NoCluster as error:
        print(f"skipped: the test cluster ({error})", file=sys.stderr)


def summary(rows):
    lines = []
    for row in rows:
        took = f"{row.ours:.0f} s to {100 * TARGET:g} %" if row.ours else f"never reached {100 * TARGET:g} %"
        speed = f"{row.settings['samples_per_second']:.0f} samples/s, {row.settings['bytes_sent_per_step'] / 2**20:.2f} MiB a step and worker"
        lines.append(f"{row.case:12} {took} ({speed})" + (f", {row.ratio:.1f}x sooner than dense" if row.ratio else ""))
    reached = [row.ratio for row in rows if row.ratio and row.case != DENSE.name]
    if reached:
        lines.append(f"best: {max(reached):.1f}x ({WANTED}x wanted); hosts and links are emulated")
    return lines
