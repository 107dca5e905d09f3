"""Whether the learning rates of recipes/systems are those that a validation split would choose: every recipe with half, once and twice its rate, on the
training samples that are left, by its accuracy on those that are set aside. The test set is not looked at: `accuracy` and `convergence` report it, with
the rates of the recipes."""
import math
import os
import re

from harness import accuracies
from harness.accuracies import PACKAGES  # noqa: F401
from harness.rows import Row

PATHS = ("src", "apps/taxon", "recipes/systems", "bench/choice.py", "bench/harness")
ASIDE = 10_000  # training samples, of 60,000
FACTORS = (0.5, 1, 2)
WORKERS = 4
SPLIT = (f"data.validation={ASIDE}", "evaluation.split=validation")
TOLERATED = 0.3  # points that a recipe may lack beside the best rate, and two standard errors


def targets(peers_only):
    return [] if peers_only else ["taxon"]


def rate_of(recipe):
    with open(recipe) as file:
        return float(re.search(r"learning_rate: \{base: ([\d.]+)", file.read()).group(1))


def chosen(lines):
    """The factor of the best accuracy, and how far the recipe's own rate is behind it: points, and the standard error of the difference."""
    seen = {factor: line for factor, line in lines.items() if not line["failure"]}
    if 1 not in seen:
        return None
    best = max(seen, key=lambda factor: float(seen[factor]["accuracy"]))
    error = 100 * math.hypot(*(float(seen[factor]["accuracy_error"] or 0) for factor in (1, best))) if best != 1 else 0.0
    return best, 100 * (float(seen[best]["accuracy"]) - float(seen[1]["accuracy"])), error


def row_of(system, rate, lines, smoke):
    row = Row("choice", system, ranks=WORKERS, peer="the best of its rates", unit="%")
    found = chosen(lines)
    row.verified = found is not None
    if found is None:
        row.settings = {"failure": lines[1]["failure"]}
        return row
    best, lacks, error = found
    row.ours, row.theirs = 100 * float(lines[1]["accuracy"]), 100 * float(lines[best]["accuracy"])
    row.settings = {"rate": rate, "best_rate": rate * best, "lacks": round(lacks, 3), "standard_error": round(error, 3), "split": "validation",
                    "accuracies": {str(rate * factor): line["accuracy"] for factor, line in lines.items()}}
    return row if smoke else row.want("lacks", at_most=round(TOLERATED + 2 * error, 3))


def run(session):
    if session.peers_only:
        return
    recipes = session.chosen(accuracies.systems())
    for recipe in recipes[:1] if session.smoke() else recipes:
        system, rate = os.path.basename(recipe).removesuffix(".yaml"), rate_of(recipe)
        if session.rows.has(Row("choice", system, ranks=WORKERS, peer="the best of its rates")):
            continue
        lines = {factor: accuracies.compare(session, os.path.join("choice", str(factor)), [recipe], WORKERS,
                                            (*SPLIT, f"learning_rate.base={rate * factor}"))[system] for factor in FACTORS}
        session.rows.add(row_of(system, rate, lines, session.smoke()))


def summary(rows):
    lines = ["accuracy on the validation split; the test set is not looked at"]
    for row in rows:
        at = row.settings
        if "failure" in at:
            lines.append(f"{row.case:24} failed: {at['failure']}")
            continue
        lines.append(f"{row.case:24} {row.ours:6.2f} % at {at['rate']:g}, best {row.theirs:.2f} % at {at['best_rate']:g}: lacks {at['lacks']:.2f} points"
                     + ("" if row.met in (None, True) else "  CHOOSE ANOTHER RATE"))
    return lines
