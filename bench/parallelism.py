"""A model that ranks hold parts of: stages against torch.distributed.pipelining, split layers against data parallelism. On one host, over shared
memory, from the same weights, on the same batches."""
import dataclasses
import functools
import json
import os
import statistics
import tempfile

from harness import build, equal, packages, pairs
from harness.build import ROOT
from harness.group import run_group
from harness.rows import Row
from harness.side import Side
from harness.training import PEERS, PLANTS as OF_WORKERS, job_environments, planted, settled

PACKAGES = ("libopenblas0-openmp", "dataset-fashion-mnist", "python3-numpy")
PATHS = ("src", "apps/taxon", "bench/parallelism.py", "bench/harness", "bench/peers/pipelining.py", "bench/recipes/cd-dnn.yaml")
RECIPE = os.path.join(ROOT, "bench", "recipes", "cd-dnn.yaml")
RELEASE = "2.15"  # of PyPI's PyTorch: Debian's has no torch.distributed.pipelining
RELEASES = ("", RELEASE)  # of Taxon's libtorch: the system's, and the peer's
STEPS = {"smoke": (3, 1), "quick": (12, 3), "full": (40, 9)}  # and turns
RATE = 0.02
STAGES, MICRO_BATCHES = 4, 8
CUT = "[fc3, fc5, fc7]"  # two layers a stage, on both sides
# Taxon's schedule, and that of the peer.
SCHEDULES = {"gpipe": "gpipe", "1f1b": "1f1b", "zb_h1": "1f1b"}
PEER = "torch.distributed.pipelining"
FARTHEST = 0.02  # of the way that a parameter goes
DATA = ()
SPLIT = {"split by the model's rule": ("mesh.tensor=2",), "split by bytes": ("mesh.tensor=2", "mesh.splits=[auto]")}
PLANTS = {name: overrides for name, overrides in OF_WORKERS.items() if name != "no exchange"}  # stages and members can't do without
PLANTS["other rate"] = (f"learning_rate.base={2 * RATE}",)


def targets(peers_only):
    return ["taxon"]


@dataclasses.dataclass
class Run:
    step: float  # seconds, the median
    losses: tuple
    weights: str  # safetensors
    bytes_sent: float = None


def run_taxon(session, folder, name, ranks, steps, overrides):
    out = os.path.join(folder, name)
    sets = (f"length.steps={steps}", "threads=1", "data.test_limit=1", f"learning_rate.base={RATE}", "report.metrics_steps=1", "report.tensorboard=false",
            "checkpoint.every_epochs=0", *overrides)
    command = [session.program("taxon"), "train", RECIPE, "--out", out, "--overwrite", *(word for one in sets for word in ("--set", one))]
    run_group(f"Taxon {name}", equal.bound_workers(ranks, command), job_environments(ranks, None, "Taxon"), session.log_folder)
    with open(os.path.join(out, "summary.json")) as file:
        summary = json.load(file)
    with open(os.path.join(out, "metrics.jsonl")) as file:
        losses = tuple(line["loss/train"] for line in map(json.loads, file) if "loss/train" in line)
    return Run(summary["step_ms"]["p50"] / 1e3, losses, os.path.join(out, "model.safetensors"), summary["bytes_sent_per_step"])


def initial_weights(session, folder):
    return run_taxon(session, folder, "initial", 1, 1, ("learning_rate.base=0",)).weights


class Pipelining:
    """The peer's processes, one for each stage."""

    def __init__(self, session, weights):
        self.weights = weights
        command = [os.path.join(PEERS, "pipelining.py"), "--threads", "1"]
        environments = [{**one, "PYTHONPATH": packages.ensure_python_torch(RELEASE)} for one in job_environments(STAGES, None, "DDP")]
        self.side = Side("pipelining", equal.bound_workers(STAGES, command), session.log_folder, environments)

    def train(self, schedule, steps, compared=""):
        options = {"schedule": schedule, "micro_batches": MICRO_BATCHES, "steps": steps, "weights": self.weights, "rate": RATE, "compared": compared}
        result = self.side.ask("train " + json.dumps(options), timeout=1800)
        return Run(settled(result["seconds"]), tuple(result["losses"]), ""), result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.side.stop()


def pipeline_row(version, schedule):
    peers = SCHEDULES[schedule]
    words = "" if peers == schedule else f", against its {peers}"
    return Row("parallelism", f"cd-dnn in {STAGES} stages, libtorch {version}, {schedule}{words}", "shared memory", STAGES, peer=PEER, unit="ms")


def run_pipelines(session, folder, weights):
    version = "" if session.peers_only else build.version_of(session.build_dir)["libtorch"]
    wanted = [schedule for schedule in SCHEDULES if not session.rows.has(pipeline_row(version, schedule))]
    if not wanted:
        return
    steps, rounds = STEPS[session.mode]
    stages = (f"mesh.pipeline={STAGES}", f"batch.micro_batches={MICRO_BATCHES}", f"pipeline.cut={CUT}")
    with Pipelining(session, weights) as peer:
        turns = {("theirs", schedule): functools.partial(lambda one: peer.train(one, steps)[0], schedule) for schedule in sorted({SCHEDULES[one] for one in wanted})}
        if not session.peers_only:
            for schedule in wanted:
                overrides = (*stages, f"pipeline.schedule={schedule}", *planted(session))
                turns["ours", schedule] = functools.partial(run_taxon, session, folder, schedule, STAGES, steps, overrides)
        runs = pairs.take_turns(turns, rounds)
        for schedule in wanted:
            theirs, row = runs["theirs", SCHEDULES[schedule]], pipeline_row(version, schedule)
            row.theirs = statistics.median(run.step for run in theirs) * 1e3
            row.settings = {"batch": 256, "micro_batches": MICRO_BATCHES, "steps": steps, "pairs": rounds, "rate": RATE, "cut": CUT}
            if not session.peers_only:
                ours = runs["ours", schedule]
                again, found = peer.train(SCHEDULES[schedule], steps, ours[-1].weights)
                row.ours = statistics.median(run.step for run in ours) * 1e3
                row.ratio, row.spread = pairs.ratio(False, [run.step for run in ours], [run.step for run in theirs])
                row.verified = all(equal.same(a.losses, b.losses) for a in ours for b in (*theirs, again)) and found["distance"] <= FARTHEST
                row.settings |= {"worst_loss_difference": max(equal.worst_difference(a.losses, b.losses) for a in ours for b in theirs),
                                 "distance_of_updates": found["distance"], "torch": found["version"]}
                row.want("ratio", at_least=1)
            session.rows.add(row)


def split_row(case):
    return Row("parallelism", f"cd-dnn, batch 256, {case}", "shared memory", 2, peer="Taxon, data parallel", unit="ms")


def run_splits(session, folder):
    wanted = [case for case in SPLIT if not session.rows.has(split_row(case))]
    if session.peers_only or not wanted:
        return
    steps, rounds = STEPS[session.mode]
    turns = {"data": functools.partial(run_taxon, session, folder, "data", 2, steps, DATA)}
    for case in wanted:
        turns[case] = functools.partial(run_taxon, session, folder, "split", 2, steps, (*SPLIT[case], *planted(session)))
    runs = pairs.take_turns(turns, rounds)
    for case in wanted:
        row, ours, theirs = split_row(case), runs[case], runs["data"]
        row.ours, row.theirs = (statistics.median(run.step for run in side) * 1e3 for side in (ours, theirs))
        row.ratio, row.spread = pairs.ratio(False, [run.step for run in ours], [run.step for run in theirs])
        row.verified = all(equal.same(a.losses, b.losses) for a in ours for b in theirs)
        row.settings = {"steps": steps, "pairs": rounds, "worst_loss_difference": max(equal.worst_difference(a.losses, b.losses) for a in ours for b in theirs),
                        "bytes_sent": [ours[0].bytes_sent, theirs[0].bytes_sent]}
        session.rows.add(row.want("ratio", at_least=1))


def run(session):
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
        run_splits(session, folder)
        weights = "" if session.peers_only else initial_weights(session, folder)
        for release in RELEASES if weights else ():
            run_pipelines(session.with_libtorch(release), folder, weights)


def summary(rows):
    return []
