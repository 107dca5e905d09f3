"""Every recipe of recipes/systems with 4 workers on emulated hosts (emulation of the plan): equal ones, one that is three times slower for good, and all three times
slower now and then. Time to a test accuracy, by `taxon compare`, which goes on where it was interrupted and writes a report for each setting."""
import csv
import glob
import json
import os
import subprocess
import sys

from harness import accuracies, preset
from harness.rows import Row
from harness.side import SideFailed

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev")
PATHS = ("src", "apps/taxon", "recipes/systems", "bench/slow_hosts.py", "bench/harness")
WORKERS, CORES, TIMEOUT = 4, 0.4, 6 * 3600
SETTINGS = {"equal hosts": "[]", "one slow host": "[{rank: 3, slowdown: 3}]", "slowdowns": "[{slowdown: 3, probability: 0.25}]"}
DENSE = "horovod"
# Some thousand samples say how long steps take, and who comes to any accuracy in them at all; the whole recipes how long it takes to come to 88 %.
QUICK = ("model.name=lenet5", "length.epochs=0", "length.samples=5120", "learning_rate.warmup_samples=512", "data.test_limit=500",
         "evaluation.every_epochs=0.0214")
# In batches of 64 and 4 epochs those come to 88 % too that learn a little less from a sample.
SMOKE = (*QUICK[:2], "length.samples=640", "learning_rate.warmup_samples=64", "data.test_limit=100", "evaluation.every_epochs=0.01")
FULL = ("model.name=lenet5", "batch.global=64", "length.epochs=4", "evaluation.every_epochs=0.125")
TARGET = {"smoke": 0.50, "quick": 0.50, "full": 0.88}
SEEDS = {"smoke": "1", "quick": "1", "full": "1,2,3"}
SMOKE_SYSTEMS = ("horovod", "bosen", "ad-psgd", "diloco")  # one of each way to keep ranks together


def targets(peers_only):
    return ["taxon"]


def compare(session, setting):
    """The folder of the comparison, and lines of its compare.csv by system."""
    out = accuracies.folder_of(session, "slow-hosts", f"{session.mode}-{setting.replace(' ', '-')}")
    sets = [*{"smoke": SMOKE, "quick": QUICK, "full": FULL}[session.mode], f"emulation.cores={CORES}", f"emulation.slow={SETTINGS[setting]}", "threads=1", "cores=all",
            "checkpoint.every_epochs=0", "report.tensorboard=false"]
    recipes = accuracies.systems()
    dense = [recipe for recipe in recipes if os.path.basename(recipe) == DENSE + ".yaml"]
    if session.smoke():
        recipes = [recipe for recipe in recipes if os.path.basename(recipe).removesuffix(".yaml") in SMOKE_SYSTEMS]
    recipes = dense + [recipe for recipe in session.chosen(recipes) if recipe not in dense]
    command = [session.program("taxon"), "compare", *recipes, "--workers", str(WORKERS), "--seeds", SEEDS[session.mode], "--target-accuracy",
               str(TARGET[session.mode]), "--out", out]
    path = os.path.join(out, "compare.csv")
    if os.path.exists(path):
        os.remove(path)  # of a run before, which is nothing that this one found
    done = subprocess.run([*command, *(word for one in sets for word in ("--set", one))], stdout=sys.stderr, timeout=TIMEOUT)
    if not os.path.exists(path):
        raise SideFailed(f"taxon compare ended with {done.returncode}")
    print(f"{setting}: {out}/report.html", file=sys.stderr)
    with open(path, newline="") as file:
        return out, {line["system"]: line for line in csv.DictReader(file)}


def hashes_of(folder, system):
    """Of the final parameters, one a seed."""
    hashes = []
    for path in sorted(glob.glob(os.path.join(folder, system, "seed-*", "summary.json"))):
        with open(path) as file:
            hashes.append(json.load(file)["parameter_hash"])
    return hashes


def sooner_wanted(line, setting):
    """What a way to keep ranks together promises where hosts are slow. Whoever waits within a bound waits for a host that is slow for good, too."""
    if line["compression"] != "dense" or setting == "equal hosts":
        return False
    loose = any(word in line["scheduling"] for word in ("quorum", "asynchronous", "softsync"))
    bounded = "staleness" in line["scheduling"]
    return loose or (bounded and setting == "slowdowns")


def seconds_of(folder, line, target):
    """To the target, the seeds' mean; None unless all of them come there."""
    runs = glob.glob(os.path.join(folder, line["system"], "seed-*")) or [os.path.join(folder, line["system"])]
    if any(preset.first_reaching(preset.tests_in(run), target) is None for run in runs):
        return None
    return float(line["seconds_to_target"]) if line["seconds_to_target"] else None


def row_of(session, setting, folder, line, dense, equal):
    row = Row("slow-hosts", f"{setting}: {line['system']}", ranks=WORKERS, peer="dense synchronous", unit="s")
    row.settings = {"setting": setting, "system": line["system"], "target": TARGET[session.mode], "network": "emulated", "cores_per_host": CORES,
                    "scheduling": line["scheduling"]}
    row.verified = not line["failure"]
    if line["failure"]:
        row.settings["failure"] = line["failure"]
        return row
    row.ours, row.theirs = (seconds_of(folder, one, TARGET[session.mode]) for one in (line, dense))
    row.ratio = row.theirs / row.ours if row.ours and row.theirs else None
    row.settings |= {"samples_per_second": float(line["samples_per_second"]), "accuracy": float(line["accuracy"]), "staleness": line["staleness_mean"],
                     "seconds_error": float(line["seconds_to_target_error"] or 0), "seeds": len(SEEDS[session.mode].split(",")),
                     "parameter_hashes": hashes_of(folder, line["system"]), "wanted_sooner": sooner_wanted(line, setting)}
    # Who keeps step and drops nobody's gradients computes the same bits however slow the hosts are.
    if line["scheduling"].startswith("synchronous") and "quorum" not in line["scheduling"]:
        row.verified = equal is None or row.settings["parameter_hashes"] == equal
    if row.settings["wanted_sooner"]:
        row.want("ratio", at_least=1)
    return row


def run(session):
    if session.peers_only:
        return
    equal = {}
    for setting in SETTINGS:
        folder, lines = compare(session, setting)
        for system, line in lines.items():
            row = row_of(session, setting, folder, line, lines[DENSE], equal.get(system))
            if not session.rows.has(row):
                session.rows.add(row)
            equal.setdefault(system, row.settings.get("parameter_hashes"))


def summary(rows):
    lines = []
    for setting in SETTINGS:
        lines.append(setting)
        for row in sorted((row for row in rows if row.settings["setting"] == setting), key=lambda row: row.ours or float("inf")):
            at = row.settings
            if "failure" in at:
                lines.append(f"  {at['system']:22} failed: {at['failure']}")
                continue
            took = f"{row.ours:6.1f} s" if row.ours else "   never"
            more = f", mean staleness {float(at['staleness']):.2f}" if at["staleness"] else ""
            versus = f", {row.ratio:.2f}x sooner than dense" if row.ratio and at["system"] != DENSE else ""
            note = " (wanted above 1)" if at["wanted_sooner"] else ""
            took += f" ± {at['seconds_error']:.1f}" if at["seeds"] > 1 else ""
            lines.append(f"  {at['system']:22} {took} to {100 * at['target']:g} %, {at['samples_per_second']:5.0f} samples/s, ends at "
                         f"{100 * at['accuracy']:.1f} %{more}{versus}{note}")
    return [*lines, "hosts are emulated"]
