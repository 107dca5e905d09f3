"""Final test accuracies of recipes, means of three seeds, beside a dense reference. No times: such a run may share the machine."""
import csv
import dataclasses
import glob
import math
import os
import shutil
import subprocess
import sys

from harness import ledger
from harness.build import ROOT
from harness.rows import Row, is_known
from harness.side import SideFailed

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev")
SEEDS, TIMEOUT = "1,2,3", 6 * 3600
CODE = ("src", "apps/taxon", "cmake", "CMakeLists.txt", "CMakePresets.json", "recipes/systems", "bench/recipes")  # that a run's result depends on
LEAST = 30  # per cent; guessing has 10


@dataclasses.dataclass(frozen=True)
class Question:
    """`bench`: whose rows these are; `workers`: of the systems; `peer`: what `dense` is called beside them."""
    bench: str
    workers: int
    peer: str


def systems(coded=None):
    """The recipes of recipes/systems; with a codec, or without one, if `coded` says so."""
    recipes = sorted(glob.glob(os.path.join(ROOT, "recipes", "systems", "*.yaml")))
    return [recipe for recipe in recipes if coded is None or has_codec(recipe) == coded]


def has_codec(recipe):
    with open(recipe) as file:
        return "codec:" in file.read()


def few(session, recipes):
    """Those of a smoke run."""
    return recipes[::8] if session.smoke() else recipes


def length_of(session):
    """What makes whole runs of all systems by the cnn a matter of hours: one epoch of the recipes' three."""
    return () if session.quick() else ("length.epochs=1",)


def folder_of(session, bench, name):
    """Of a comparison, which keeps runs that are complete: those of the same code alone, whatever else was committed since. All systems together take hours."""
    commit = session.rows.kind.get("commit")
    folder = os.path.join(session.build_dir, bench, ledger.version_of(CODE) or "unknown", name)
    if not is_known(commit):
        shutil.rmtree(folder, ignore_errors=True)
    return folder


def compare(session, bench, recipes, workers, more=()):
    """Lines of compare.csv by system, with `more` overrides. `taxon compare` goes on where it was interrupted."""
    model = "mlp" if session.quick() else "cnn"
    out = folder_of(session, bench, f"{model}-{workers}{'-smoke' if session.smoke() else ''}")
    sets = [f"model.name={model}", "evaluation.every_epochs=0", "checkpoint.every_epochs=0", "report.trace=false", "report.tensorboard=false", "threads=1",
            "cores=all", *more]
    if session.smoke():
        sets = [*sets, "length.epochs=0", "length.samples=2560", "learning_rate.warmup_samples=256", "data.test_limit=500"]
    command = [session.program("taxon"), "compare", *recipes, "--workers", str(workers), "--seeds", "1" if session.smoke() else SEEDS, "--out", out]
    path = os.path.join(out, "compare.csv")
    if os.path.exists(path):
        os.remove(path)  # of a run before, which is nothing that this one found
    done = subprocess.run([*command, *(word for one in sets for word in ("--set", one))], stdout=sys.stderr, timeout=TIMEOUT)
    if not os.path.exists(path):
        raise SideFailed(f"taxon compare ended with {done.returncode}")
    with open(path, newline="") as file:
        return {line["system"]: line for line in csv.DictReader(file)}


def row_of(question, line, dense, most_lacking, smoke=False):
    """A system may lack `most_lacking` points and twice the standard error of the difference; None: it is only shown. After a smoke run nothing can be
    asked."""
    row = Row(question.bench, line["system"], ranks=question.workers, peer=question.peer, unit="%")
    if line["failure"]:
        row.verified = False
        row.settings = {"failure": line["failure"], "within": False}
        return row
    row.ours, row.theirs = 100 * float(line["accuracy"]), 100 * float(dense["accuracy"])
    error = 100 * math.hypot(float(line["accuracy_error"] or 0), float(dense["accuracy_error"] or 0))
    allowed = None if most_lacking is None else round(most_lacking + 2 * error, 3)
    row.settings = {"lacks": round(row.theirs - row.ours, 3), "standard_error": round(error, 3), "allowed": allowed,
                    "within": allowed is None or row.theirs - row.ours <= allowed, "scheduling": line["scheduling"], "optimisation": line["optimisation"],
                    "compression": line["compression"], "mean_staleness": line["staleness_mean"]}
    # That it has learnt something; whether enough is the goal's matter.
    row.verified = smoke or row.ours > LEAST
    return row if allowed is None else row.want("lacks", at_most=allowed)


def summary(rows):
    lines = []
    for row in rows:
        at = row.settings
        if "failure" in at:
            lines.append(f"{row.case:24} failed: {at['failure']}")
            continue
        allowed = "nothing is asked of it" if at["allowed"] is None else f"allowed {at['allowed']:.2f} (two standard errors are {2 * at['standard_error']:.2f})"
        verdict = "" if at["within"] else "  MORE THAN ALLOWED"
        lines.append(f"{row.case:24} {row.ours:6.2f} %, {row.peer} {row.theirs:.2f} %: lacks {at['lacks']:+5.2f} points, {allowed}{verdict}")
    judged = [row for row in rows if row.settings.get("allowed") is not None or "failure" in row.settings]
    return [*lines, f"{sum(1 for row in judged if row.settings['within'])} of {len(judged)} within what is allowed"]
