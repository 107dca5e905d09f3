"""Final test accuracy of every recipe of recipes/systems that sends whole gradients or weights, with 4 workers, against one process that trains alone on the
same data, in the same order and from the same weights."""
import os

from harness import accuracies
from harness.accuracies import PACKAGES, summary  # noqa: F401
from harness.side import SideFailed

PATHS = ("src", "apps/taxon", "recipes/systems", "bench/accuracy.py", "bench/harness/accuracies.py")

ASKED = accuracies.Question("accuracy", 4, "one process")
ALONE = "horovod"  # with one worker it is plain SGD with momentum
SYNCHRONOUS, LOOSE = 0.5, 1.5  # points


def targets(peers_only):
    return [] if peers_only else ["taxon"]


def most_lacking(line):
    """By what the comparison says of the system's place on the axes."""
    equal_replicas = line["scheduling"] == "synchronous" and not line["optimisation"].startswith("replicas")
    return SYNCHRONOUS if equal_replicas else LOOSE


def run(session):
    if session.peers_only:
        return
    recipes = accuracies.systems(coded=False)
    by_name = {os.path.basename(recipe)[:-len(".yaml")]: recipe for recipe in recipes}
    alone = accuracies.compare(session, ASKED.bench, [by_name[ALONE]], 1, accuracies.length_of(session))[ALONE]
    if alone["failure"]:
        raise SideFailed(f"the process alone: {alone['failure']}")
    chosen = accuracies.few(session, session.chosen(recipes))
    for line in accuracies.compare(session, ASKED.bench, chosen, ASKED.workers, accuracies.length_of(session)).values():
        row = accuracies.row_of(ASKED, line, alone, most_lacking(line), session.smoke())
        if not session.rows.has(row):
            session.rows.add(row)
