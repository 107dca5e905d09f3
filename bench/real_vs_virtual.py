"""The simulator's step times beside real ones: test clusters are calibrated, models profiled on them, and every setting trained and simulated."""
import contextlib
import dataclasses
import json
import os
import statistics
import sys
import tempfile

from harness import machine
from harness.build import ROOT
from harness.cluster import Cluster, NoCluster
from harness.group import run_group
from harness.rows import Row

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev", "iproute2")
RECIPE = os.path.join(ROOT, "bench", "recipes", "real-vs-virtual.yaml")
LAB_PORT = 29750
MEDIAN_WANTED, WORST_WANTED = 0.07, 0.15
STALENESS_WANTED = (0.10, 0.25)  # of the mean, or updates


@dataclasses.dataclass(frozen=True)
class Lab:
    """Where settings run: hosts of the test cluster, or without a rate workers of this host."""
    name: str
    hosts: int
    rate: str = None
    cores_per_host: float = None

    def open(self):
        return Cluster(self.hosts, self.rate, self.cores_per_host) if self.rate else contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    batch: int  # per worker

    def overrides(self):
        return [f"model.name={self.name}", f"batch.per_worker={self.batch}"]


@dataclasses.dataclass(frozen=True)
class Setting:
    """`steps`: of the real run, quick and full; quick 0: full only. A discipline whose steps are not alike, or whose ranks don't keep
    step, has a title, and is judged by the time that a global batch takes on average, not by the median step."""
    lab: Lab
    model: Model
    overrides: tuple
    steps: tuple
    title: str = ""

    def name(self):
        if self.title:
            return f"{self.lab.name} {self.model.name}, {self.title}"
        words = [self.lab.name, self.model.name, *(override.partition("=")[2] for override in self.overrides)]
        return " ".join(words)


ONE_HOST = Lab("one host", 2)
LAB2, LAB2_SLOW = Lab("2 x 1gbit", 2, "1gbit", 0.6), Lab("2 x 100mbit", 2, "100mbit", 0.6)
LAB4, LAB4_SLOW = Lab("4 x 1gbit", 4, "1gbit", 0.45), Lab("4 x 100mbit", 4, "100mbit", 0.45)
LAB8_SLOW = Lab("8 x 100mbit", 8, "100mbit", 0.22)
MLP, CNN, RESNET = Model("mlp", 32), Model("cnn", 64), Model("resnet18", 4)


def collective(name):
    return f"exchange.levels.0.collective={name}"


RING, HALVING, TREE = collective("ring"), collective("halving_doubling"), collective("tree")
BACKWARD, PRIORITY = "exchange.order=backward", "exchange.order=priority"
SHARDED = "exchange.levels.0.topology=sharded"

# One line each, by lab.
SETTINGS = (
    Setting(ONE_HOST, MLP, (), (150, 600)),
    Setting(ONE_HOST, CNN, (), (60, 300)),
    Setting(LAB2, MLP, (RING,), (60, 200)),
    Setting(LAB2, CNN, (RING,), (0, 60)),
    Setting(LAB2, RESNET, (RING,), (0, 20)),
    Setting(LAB4, MLP, (TREE,), (60, 200)),
    Setting(LAB4, CNN, (RING, PRIORITY), (40, 100)),
    Setting(LAB4, CNN, (RING, BACKWARD), (40, 100)),
    Setting(LAB4, CNN, (HALVING,), (0, 60)),
    Setting(LAB4, CNN, (SHARDED,), (0, 60)),
    Setting(LAB4, RESNET, (RING,), (0, 20)),
    Setting(LAB2_SLOW, MLP, (RING,), (0, 60)),
    Setting(LAB2_SLOW, CNN, (RING,), (0, 20)),
    Setting(LAB4_SLOW, MLP, (RING,), (30, 60)),
    Setting(LAB4_SLOW, MLP, (HALVING,), (30, 60)),
    Setting(LAB4_SLOW, CNN, (RING, PRIORITY), (10, 20)),
    Setting(LAB4_SLOW, CNN, (RING, BACKWARD), (0, 20)),
    Setting(LAB4_SLOW, CNN, (TREE,), (0, 20)),
    Setting(LAB8_SLOW, MLP, (RING,), (20, 50)),
    Setting(LAB8_SLOW, MLP, (HALVING,), (20, 50)),
    Setting(LAB8_SLOW, CNN, (RING,), (0, 16)),
)


def discipline(title, *keys, steps=(0, 60), others=()):
    return Setting(LAB4, CNN, (*(f"exchange.levels.0.{key}" for key in keys), *others), steps, title)


# One of each class of recipes/systems, with their model.
DISCIPLINES = (
    discipline("servers", "topology=servers", steps=(30, 60)),
    discipline("one dedicated server", "topology=servers", others=("mesh.servers=1",)),
    discipline("backup worker", "topology=servers", "quorum=3", "apply=3"),
    discipline("bounded staleness", "topology=servers", "staleness=2", "apply=1"),
    discipline("asynchronous", "topology=servers", "staleness=-1", "apply=1", steps=(30, 60)),
    discipline("2-softsync", "topology=servers", "staleness=-1", "apply=2"),
    discipline("asynchronous elastic", "topology=servers", "rule=elastic", "rate=0.9", "period=4", "staleness=-1", "apply=1"),
    discipline("local SGD", "rule=average", "period=8", steps=(0, 96)),
    discipline("block momentum", "rule=block_nesterov", "momentum=0.75", "period=8", steps=(0, 96)),
    discipline("DiLoCo", "rule=outer_nesterov", "rate=0.7", "momentum=0.9", "period=8", steps=(40, 96)),
    discipline("gossip on a ring", "topology=gossip", "graph=ring", "rule=average", steps=(30, 60)),
    discipline("gossip on an exponential graph", "topology=gossip", "graph=exponential", "rule=average"),
    discipline("gossip by random pairs", "topology=gossip", "graph=random", "rule=average"),
    discipline("pairs without a common step", "topology=pairs", "rule=average"),
)


def targets(peers_only):
    return ["taxon"]


def environments(lab, cluster):
    host, port = (cluster.addresses[0], LAB_PORT) if cluster else ("127.0.0.1", machine.free_ports(2))
    return [{"RANK": str(rank), "WORLD_SIZE": str(lab.hosts), "LOCAL_RANK": "0" if cluster else str(rank),
             "LOCAL_WORLD_SIZE": "1" if cluster else str(lab.hosts), "MASTER_ADDR": host, "MASTER_PORT": str(port),
             "TAXON_SECRET": "benchmark", "OMP_NUM_THREADS": "1"} for rank in range(lab.hosts)]


def sets(overrides):
    return [word for override in overrides for word in ("--set", override)]


class Place:
    """A lab with what was measured of it once: its cluster file and profiles."""

    def __init__(self, session, lab, cluster, folder):
        self.session, self.lab, self.cluster, self.folder = session, lab, cluster, folder
        self.taxon = session.program("taxon")
        self.cluster_file = os.path.join(folder, "cluster.yaml")
        self.profiles = {}
        words = ["calibrate", "--out", self.cluster_file, "--threads", "1", *(["--quick"] if session.quick() else [])]
        print(self.as_job("calibration", words), file=sys.stderr)

    def as_job(self, name, words):
        """Runs the program as every rank of the lab; returns rank 0's output."""
        command = [self.taxon, *words]
        commands = [self.cluster.command(rank, command) if self.cluster else command for rank in range(self.lab.hosts)]
        return run_group(f"{name} {self.lab.name}", commands, environments(self.lab, self.cluster), self.session.log_folder, timeout=600)

    def alone(self, name, words):
        """Runs the program once, outside of the lab and its quotas."""
        return run_group(f"{name} {self.lab.name}", [[self.taxon, *words]], [{"OMP_NUM_THREADS": "1"}], self.session.log_folder, timeout=600)

    def profile(self, model):
        """By all ranks at once, which have the same caches to share as in training; one file is as good as another."""
        if model not in self.profiles:
            path = os.path.join(self.folder, f"{model.name}.yaml")
            steps = 30 if self.session.quick() else 100
            self.as_job("profile", ["profile", RECIPE, "--threads", "1", "--steps", str(steps), "--out", path, *sets(model.overrides())])
            self.profiles[model] = path
        return self.profiles[model]

    def train(self, setting, steps):
        with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
            overrides = [*setting.model.overrides(), *setting.overrides, f"length.steps={steps}"]
            self.as_job("train", ["train", RECIPE, "--out", out, *sets(overrides)])
            with open(os.path.join(out, "summary.json")) as file:
                return json.load(file)

    def simulate(self, setting):
        path = os.path.join(self.folder, "simulated.json")
        overrides = [*setting.model.overrides(), *setting.overrides]
        steps = setting.steps[1] if setting.title else 20
        self.alone("simulate", ["simulate", RECIPE, "--cluster", self.cluster_file, "--workers", str(self.lab.hosts), "--profile",
                                self.profile(setting.model), "--steps", str(steps), "--json", path, *sets(overrides)])
        with open(path) as file:
            return json.load(file)


def row_of(setting):
    lab = setting.lab
    return Row("real-vs-virtual", setting.name(), transport="tcp" if lab.rate else "shared memory", ranks=lab.hosts,
               peer="the real run")


def compare(place, setting, steps):
    row = row_of(setting)
    simulated, real = place.simulate(setting), place.train(setting, steps)
    if setting.title:
        batch = real["samples"] / real["steps"]
        row.ours, row.theirs = 1e3 * batch / simulated["samples_per_second"], 1e3 * batch / real["samples_per_second"]
    else:
        row.ours, row.theirs = simulated["step_seconds"]["median"] * 1e3, real["step_ms"]["p50"]
    row.unit, row.ratio = "ms", row.ours / row.theirs
    row.bytes = real["parameters"] * 4
    with open(place.cluster_file) as file:
        cluster = file.read()
    row.settings = {"error": round(row.ratio - 1, 4), "steps": steps, "batch_per_worker": setting.model.batch,
                    "cores_per_host": setting.lab.cores_per_host, "network": "emulated" if setting.lab.rate else "measured",
                    "real_compute_ms": real["compute_ms"], "real_exposed_ms": real["exposed_communication_ms"],
                    "simulated_seconds": simulated["breakdown_seconds"], "cluster": cluster, "discipline": setting.title}
    if "staleness" in real:
        row.settings["staleness"] = {"real": real["staleness"]["mean"], "simulated": simulated["staleness"]["mean"]}
    return row


def run_lab(session, lab, settings):
    """`settings`: with their numbers of steps."""
    with lab.open() as cluster, tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
        place = Place(session, lab, cluster, folder)
        for setting, steps in settings:
            session.rows.add(compare(place, setting, steps))


def run(session):
    if session.peers_only:
        return
    chosen = {}
    for setting in (*SETTINGS, *DISCIPLINES):
        if session.only and (setting.title or setting.name()) not in session.only:
            continue
        steps = setting.steps[0 if session.quick() else 1]
        if steps and not session.rows.has(row_of(setting)):
            chosen.setdefault(setting.lab, []).append((setting, steps))
    for lab, settings in chosen.items():
        try:
            run_lab(session, lab, settings)
        except NoCluster as error:
            print(f"skipped: {lab.name} ({error})", file=sys.stderr)


def staleness_of(row):
    if "staleness" not in row.settings:
        return ""
    real, simulated = row.settings["staleness"]["real"], row.settings["staleness"]["simulated"]
    return f"   staleness {real:.2f}, simulated {simulated:.2f}"


def section(rows, what):
    if not rows:
        return []
    lines = [f"{what:52} {'real':>10} {'simulated':>10} {'error':>8}"]
    for row in rows:
        lines.append(f"{row.case:52} {row.theirs:7.1f} ms {row.ours:7.1f} ms {100 * row.settings['error']:+6.1f} %{staleness_of(row)}")
    errors = [abs(row.settings["error"]) for row in rows]
    lines.append(f"median error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %")
    return lines


def summary(rows):
    if not rows:
        return []
    share, updates = STALENESS_WANTED
    return [*section([row for row in rows if not row.settings["discipline"]], "median step"),
            *section([row for row in rows if row.settings["discipline"]], "a global batch, on average"),
            f"wanted: median error at most {100 * MEDIAN_WANTED:g} %, worst at most {100 * WORST_WANTED:g} %; mean staleness within "
            f"{100 * share:g} % or {updates:g} updates; hosts of the test cluster are emulated"]
