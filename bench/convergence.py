"""Final test accuracy of every compressed system with 8 workers against dense synchronous training of as many, and of biased codecs without the memory of
their errors."""
import glob
import os

from harness import accuracies
from harness.accuracies import PACKAGES, summary  # noqa: F401
from harness.build import ROOT
from harness.side import SideFailed

PATHS = ("src", "apps/taxon", "recipes/systems", "bench/recipes/convergence", "bench/convergence.py", "bench/harness/accuracies.py")

ASKED = accuracies.Question("convergence", 8, "dense")
DENSE = os.path.join(ROOT, "recipes", "systems", "horovod.yaml")
OURS = os.path.join(ROOT, "bench", "recipes", "convergence")  # casts, and codecs without feedback
SMALL, LARGE = 0.5, 1.0  # points
EXACT = ("dgc", "gs-sgd", "gs-sgd-split", "powersgd", "int8", "bf16")


def targets(peers_only):
    return [] if peers_only else ["taxon"]


def most_lacking(system):
    if "without-feedback" in system or system == "gs-sgd-global":  # what these cost is the question
        return None
    return SMALL if system in EXACT else LARGE


def run(session):
    if session.peers_only:
        return
    coded = [*accuracies.systems(coded=True), *sorted(glob.glob(os.path.join(OURS, "*.yaml")))]
    recipes = [DENSE, *accuracies.few(session, session.chosen(coded))]
    lines = accuracies.compare(session, ASKED.bench, recipes, ASKED.workers, accuracies.length_of(session))
    dense = lines.pop("horovod")
    if dense["failure"]:
        raise SideFailed(f"dense training: {dense['failure']}")
    for system, line in lines.items():
        row = accuracies.row_of(ASKED, line, dense, most_lacking(system), session.smoke())
        if not session.rows.has(row):
            session.rows.add(row)
