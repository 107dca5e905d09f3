"""What the virtual world needs to know of a lab: its cluster file and profiles of models, measured on the lab's own hosts."""
import contextlib
import dataclasses
import json
import os
import statistics
import sys

from harness import machine
from harness.cluster import Cluster
from harness.group import run_group

PORT = 29750
# Other work beside a measurement takes its cores, and what was measured says nothing then: it is tried again, and marked if it never was quiet.
MOST_OTHERS, TRIES = 0.15, 3
# Steps of a real run that are not timed, by mode: memory is first touched in them, which takes a fifth of a core seconds.
UNTIMED = {"smoke": 1, "quick": 4, "full": 5}


@dataclasses.dataclass(frozen=True)
class Lab:
    """Where settings run: hosts of the test cluster with so many ranks each, or without a rate workers of this host."""
    name: str
    hosts: int
    rate: str = None
    cores_per_host: float = None
    ranks_per_host: int = 1
    cpu_period_ms: float = None

    def ranks(self):
        return self.hosts * self.ranks_per_host

    def open(self):
        return Cluster(self.hosts, self.rate, self.cores_per_host, cpu_period_ms=self.cpu_period_ms) if self.rate else contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    batch: int  # per worker

    def overrides(self):
        return [f"model.name={self.name}", f"batch.per_worker={self.batch}"]


def environments(lab, cluster):
    host, port = (cluster.addresses[0], PORT) if cluster else ("127.0.0.1", machine.free_ports(2))
    each = lab.ranks_per_host if cluster else lab.ranks()
    return [{"RANK": str(rank), "WORLD_SIZE": str(lab.ranks()), "LOCAL_RANK": str(rank % each), "LOCAL_WORLD_SIZE": str(each), "MASTER_ADDR": host,
             "MASTER_PORT": str(port), "TAXON_SECRET": "benchmark", "OMP_NUM_THREADS": "1"} for rank in range(lab.ranks())]


def sets(overrides):
    return [word for override in overrides for word in ("--set", override)]


@dataclasses.dataclass
class Run:
    """A real one. Seconds: medians of the timed steps; `losses` of every step."""
    summary: dict
    losses: tuple
    step: float
    computation: float
    exposed: float


def read_run(out, mode):
    """REQUIRES: report.metrics_steps=1."""
    with open(os.path.join(out, "summary.json")) as file:
        summary = json.load(file)
    with open(os.path.join(out, "metrics.jsonl")) as file:
        lines = [line for line in map(json.loads, file) if "loss/train" in line]
    times = [statistics.median(line[f"time/{name}_ms"] for line in lines[UNTIMED[mode]:]) / 1e3 for name in ("step", "compute", "exposed_communication")]
    return Run(summary, tuple(line["loss/train"] for line in lines), *times)


def read_profile(text):
    """By segment: seconds of its passes, and from when on and by when of the whole backward pass each parameter's gradient is there; and whether it is a
    linear layer's weight."""
    segments, at = [], None
    for line in text.splitlines():
        key, _, value = line.strip().removeprefix("- ").partition(": ")
        if line.startswith("  - name:"):
            segments.append({"parameters": {}})
        elif line.startswith("    ") and key in ("forward", "backward"):
            segments[-1][key] = float(value)
        elif line.startswith("      - name:"):
            at = segments[-1]["parameters"].setdefault(value, {})
        elif key in ("gradient_from", "gradient"):
            at[key] = float(value)
        elif key == "linear":
            at[key] = value == "true"
    return segments


class Jobs:
    """The program as the ranks of a lab, one job after the other."""

    def __init__(self, session, lab, cluster):
        self.session, self.lab, self.cluster = session, lab, cluster
        self.taxon = session.program("taxon")

    def as_job(self, name, words):
        """Runs the program as every rank of the lab; returns rank 0's output."""
        command = [self.taxon, *words]
        commands = [self.cluster.command(rank // self.lab.ranks_per_host, command) if self.cluster else command for rank in range(self.lab.ranks())]
        return run_group(f"{name} {self.lab.name}", commands, environments(self.lab, self.cluster), self.session.log_folder, timeout=600)


class Twin(Jobs):
    """A lab with what was measured of it once: its cluster file and profiles."""

    def __init__(self, session, lab, cluster, folder, recipe):
        super().__init__(session, lab, cluster)
        self.folder, self.recipe = folder, recipe
        self.cluster_file = os.path.join(folder, "cluster.yaml")
        self.profiles = {}
        self.disturbed = {}  # what was measured -> cores that other work took meanwhile
        words = ["calibrate", "--out", self.cluster_file, "--threads", "1", *(["--quick"] if session.quick() else [])]
        print(self.undisturbed("calibration", words), file=sys.stderr)

    def undisturbed(self, name, words):
        """As as_job(), again if other work went on meanwhile."""
        for _ in range(1 if self.session.smoke() else TRIES):
            with machine.Watch() as watch:
                output = self.as_job(name, words)
            self.disturbed[name] = watch.others
            if watch.others <= MOST_OTHERS:
                break
            print(f"{self.lab.name}: other work kept {watch.others:.2f} cores busy during the {name}", file=sys.stderr)
        return output

    def quiet(self):
        return all(cores <= MOST_OTHERS for cores in self.disturbed.values())

    def alone(self, name, words):
        """Runs the program once, outside of the lab and its quotas."""
        return run_group(f"{name} {self.lab.name}", [[self.taxon, *words]], [{"OMP_NUM_THREADS": "1"}], self.session.log_folder, timeout=600)

    def profile(self, model, steps=None):
        """By all ranks at once, which have the same caches to share as in training; one file is as good as another."""
        if model not in self.profiles:
            self.profiles[model] = self.take_profile(model, steps or {"smoke": 5, "quick": 30, "full": 100}[self.session.mode], model.name)
        return self.profiles[model]

    def take_profile(self, model, steps, name, workers=1):
        path = os.path.join(self.folder, f"{name}.yaml")
        self.undisturbed(f"profile of {name}", ["profile", self.recipe, "--threads", "1", "--workers", str(workers), "--steps", str(steps), "--out", path,
                                                *sets(model.overrides())])
        return path

    def simulate(self, model, overrides, steps, fidelity="timing"):
        path = os.path.join(self.folder, "simulated.json")
        self.alone("simulate", ["simulate", self.recipe, "--cluster", self.cluster_file, "--workers", str(self.lab.ranks()), "--profile", self.profile(model),
                                "--fidelity", fidelity, "--steps", str(steps), "--json", path, *sets([*model.overrides(), *overrides])])
        with open(path) as file:
            return json.load(file)
