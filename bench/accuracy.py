"""Final test accuracy of every recipe of recipes/systems with 4 workers against one process that trains alone on the same data, in the same order and from
the same weights: means of three seeds, by `taxon compare`, which goes on where it was interrupted. No times: it may share the machine."""
import csv
import glob
import math
import os
import subprocess
import sys

from harness.build import ROOT
from harness.rows import Row
from harness.side import SideFailed

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev")
WORKERS, SEEDS, TIMEOUT = 4, "1,2,3", 4 * 3600
ALONE = "horovod"  # with one worker it is plain SGD with momentum
# A system may lack so many points and twice the standard error of the difference.
SYNCHRONOUS, COMPRESSED, LOOSE = 0.5, 1.0, 1.5


def targets(peers_only):
    return ["taxon"]


def compare(session, recipes, workers):
    """Lines of compare.csv by system."""
    model = "mlp" if session.quick() else "cnn"
    out = os.path.join(session.build_dir, "accuracy", f"{model}-{workers}")
    sets = [f"model.name={model}", "evaluation.every_epochs=0", "checkpoint.every_epochs=0", "report.trace=false", "report.tensorboard=false", "threads=1",
            "cores=all"]
    command = [session.program("taxon"), "compare", *recipes, "--workers", str(workers), "--seeds", SEEDS, "--out", out]
    done = subprocess.run([*command, *(word for one in sets for word in ("--set", one))], stdout=sys.stderr, timeout=TIMEOUT)
    path = os.path.join(out, "compare.csv")
    if not os.path.exists(path):
        raise SideFailed(f"taxon compare ended with {done.returncode}")
    with open(path, newline="") as file:
        return {line["system"]: line for line in csv.DictReader(file)}


def most_lacking(line):
    """By what the comparison says of the system's place on the axes."""
    if line["compression"] != "dense":
        return COMPRESSED
    equal_replicas = line["scheduling"] == "synchronous" and not line["optimisation"].startswith("replicas")
    return SYNCHRONOUS if equal_replicas else LOOSE


def row_of(session, line, alone):
    row = Row("accuracy", line["system"], ranks=WORKERS, peer="one process", unit="%")
    row.verified = not line["failure"]
    if line["failure"]:
        row.settings = {"failure": line["failure"], "within": False}
        return row
    row.ours, row.theirs = 100 * float(line["accuracy"]), 100 * float(alone["accuracy"])
    error = 100 * math.hypot(float(line["accuracy_error"] or 0), float(alone["accuracy_error"] or 0))
    allowed = most_lacking(line) + 2 * error
    row.settings = {"lacks": round(row.theirs - row.ours, 3), "standard_error": round(error, 3), "allowed": round(allowed, 3),
                    "within": row.theirs - row.ours <= allowed, "scheduling": line["scheduling"], "optimisation": line["optimisation"],
                    "compression": line["compression"], "mean_staleness": line["staleness_mean"]}
    return row


def run(session):
    if session.peers_only:
        return
    systems = os.path.join(ROOT, "recipes", "systems")
    alone = compare(session, [os.path.join(systems, ALONE + ".yaml")], 1)[ALONE]
    if alone["failure"]:
        raise SideFailed(f"the process alone: {alone['failure']}")
    for line in compare(session, sorted(glob.glob(os.path.join(systems, "*.yaml"))), WORKERS).values():
        row = row_of(session, line, alone)
        if not session.rows.has(row):
            session.rows.add(row)


def summary(rows):
    lines = []
    for row in rows:
        if "failure" in row.settings:
            lines.append(f"{row.case:22} failed: {row.settings['failure']}")
            continue
        verdict = "" if row.settings["within"] else "  MORE THAN ALLOWED"
        lines.append(f"{row.case:22} {row.ours:6.2f} %, one process {row.theirs:.2f} %: lacks {row.settings['lacks']:+5.2f} points, allowed "
                     f"{row.settings['allowed']:.2f} (two standard errors are {2 * row.settings['standard_error']:.2f}){verdict}")
    within = sum(1 for row in rows if row.settings["within"])
    return [*lines, f"{within} of {len(rows)} within what is allowed"]
