"""Recipes of recipes/systems, trained by one rank on every host of the test cluster, or by as many on this host."""
import json
import os
import tempfile

from harness.build import ROOT
from harness.group import run_group

PORT = 29850


def environments(address, ranks, local):
    return [{"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank if local else 0), "LOCAL_WORLD_SIZE": str(ranks if local else 1),
             "TAXON_SECRET": "benchmark", "MASTER_ADDR": address, "MASTER_PORT": str(PORT), "OMP_NUM_THREADS": "1"} for rank in range(ranks)]


def train(session, preset, ranks, cluster, overrides, enough=None):
    """The run's summary and the tests on its way. `cluster` None: on this host. The run ends early when `enough` of the tests so far is true."""
    return train_recipe(session, os.path.join(ROOT, "recipes", "systems", preset + ".yaml"), ranks, cluster, overrides, enough)


def train_recipe(session, recipe, ranks, cluster, overrides, enough=None):
    preset = os.path.basename(recipe).removesuffix(".yaml")
    sets = ["threads=1", "report.tensorboard=false", "checkpoint.every_epochs=0", *overrides]
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
        command = [session.program("taxon"), "train", recipe, "--out", out, *(word for one in sets for word in ("--set", one))]
        commands = [cluster.command(rank, command) if cluster else command for rank in range(ranks)]
        run_group(preset + (" lab" if cluster else ""), commands, environments(cluster.addresses[0] if cluster else "127.0.0.1", ranks, not cluster),
                  session.log_folder, timeout=3600, enough=enough and (lambda: enough(tests_in(out))))
        with open(os.path.join(out, "summary.json")) as file:
            summary = json.load(file)
        return summary | {"first_loss": first_loss_in(out)}, tests_in(out)


def tests_in(out):
    """Of a run that may still be writing."""
    path = os.path.join(out, "metrics.jsonl")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n") and "accuracy/test" in line]


def first_loss_in(out):
    """Of the first step, if every step has a line."""
    with open(os.path.join(out, "metrics.jsonl")) as file:
        return next((line["loss/train"] for line in map(json.loads, file) if "loss/train" in line), None)


def first_reaching(tests, accuracy):
    return next((test for test in tests if test["accuracy/test"] >= accuracy), None)
