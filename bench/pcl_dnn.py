"""PCL-DNN's strong scaling (Das et al., arXiv 1602.06709), simulated: its networks, batches and numbers of nodes, on clusters described
beforehand, with one node's rate. The step is bench/ours/pcl_dnn.cc: exchanges are Taxon's collectives, message by message over the virtual
links; only the passes' times are closed forms. Beside the paper's technique stand data parallelism alone, and first layers first."""
import dataclasses
import json
import os
import subprocess

from harness import build
from harness.rows import Row
from harness.side import SideFailed

PACKAGES = ("libopenmpi-dev", "libgloo-dev")  # the build looks for all peers
PATHS = ("src/base", "src/task", "src/plan", "src/program", "src/parallel", "src/net", "src/comm", "src/exchange", "src/sim", "bench/pcl_dnn.py", "bench/ours/pcl_dnn.cc",
         "clusters", "bench/harness")
PROGRAM = "bench_pcl_dnn"
BYTES_MAY_DIFFER = 0.02


@dataclasses.dataclass(frozen=True)
class Case:
    """One of the paper's runs. `rate`: samples per second of one node; `published`: times as fast as one."""
    name: str
    network: str
    workers: int
    batch: int
    cluster: str
    rate: float
    published: float


CASES = (
    Case("VGG-A", "vgg-a", 128, 512, "cori-phase1", 28, 90),
    Case("VGG-A", "vgg-a", 64, 256, "cori-phase1", 28, 53),
    Case("OverFeat-FAST", "overfeat-fast", 64, 256, "cori-phase1", 90, 42),
    Case("CD-DNN", "cd-dnn", 16, 1024, "fdr-16", 4600, 6.5),
    Case("VGG-A, Ethernet", "vgg-a", 16, 256, "aws-c4.8xlarge", 28, 14),
)
PAPER, DATA, PRIORITY = "as published", "data parallelism alone", "first layers first"
TECHNIQUES = {
    PAPER: {"split": "linear", "order": "fifo"},
    DATA: {"split": "data", "order": "fifo"},
    PRIORITY: {"split": "linear", "order": "priority"},
}
# How much the assumptions matter; the small batch's loss is the number of samples with which a node reaches half its rate.
ASSUMPTIONS = (
    *(("bandwidth", {"bandwidth_factor": factor}) for factor in (0.25, 0.5, 2)),
    *(("latency", {"latency_factor": factor}) for factor in (10, 100)),
    *(("small batches", {"half_batch": samples}) for samples in (0.5, 1, 2)),
)


def targets(peers_only):
    return [PROGRAM]


def simulate(session, case, **setting):
    words = {"cluster": os.path.join(build.ROOT, "clusters", f"{case.cluster}.yaml"), "network": case.network, "workers": case.workers,
             "batch": case.batch, "rate": case.rate, **setting}
    done = subprocess.run([session.program(PROGRAM), json.dumps(words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SideFailed(f"{PROGRAM} {words} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def is_right(found):
    """The bytes that a rank sends are those of the balance equations."""
    return abs(found["sent_bytes"] / found["expected_bytes"] - 1) <= BYTES_MAY_DIFFER


def finish(row, found, **settings):
    row.ours, row.unit = found["speedup"], "x"
    row.bound, row.of_bound = row.ranks, found["speedup"] / row.ranks
    row.verified = is_right(found)
    row.settings = {"step_seconds": found["step_seconds"], "compute_seconds": found["compute_seconds"], "sent_bytes": found["sent_bytes"],
                    "groups": found["groups"], **settings}
    return row


def run_technique(session, case, technique):
    row = Row("pcl-dnn", f"{case.name}: {technique}", "virtual", case.workers, peer="published" if technique != DATA else None)
    if session.rows.has(row):
        return
    finish(row, simulate(session, case, **TECHNIQUES[technique]), technique=technique, network=case.name)
    if row.peer:
        row.theirs, row.ratio = case.published, row.ours / case.published
    if technique == PAPER:
        row.want("ours", at_least=case.published)
    session.rows.add(row)


def describe(words):
    (key, value), = words.items()
    return {"bandwidth_factor": f"{value:g} of the bandwidth", "latency_factor": f"{value:g} of the latency",
            "half_batch": f"half the rate with {value:g} samples"}[key]


def run_assumption(session, case, words):
    row = Row("pcl-dnn", f"{case.name}, {describe(words)}", "virtual", case.workers)
    if session.rows.has(row):
        return
    session.rows.add(finish(row, simulate(session, case, **TECHNIQUES[PAPER], **words), assumption=describe(words), network=case.name,
                            published=case.published))


def run(session):
    if session.peers_only:
        return
    cases = [case for case in CASES if case.workers <= 16] if session.smoke() else CASES
    for case in cases:
        for technique in TECHNIQUES:
            run_technique(session, case, technique)
    if session.smoke():
        return
    for case in cases:
        for _, words in ASSUMPTIONS:
            run_assumption(session, case, words)


def summary(rows):
    return []
