"""The simulator's step times beside real ones: test clusters are calibrated, models profiled on them, and every setting trained and simulated."""
import dataclasses
import functools
import json
import os
import statistics
import sys
import tempfile

from harness import pairs
from harness.build import ROOT
from harness.cluster import NoCluster
from harness.rows import Row, claim
from harness.side import SideFailed
from harness.twin import MOST_OTHERS, Lab, Model, Twin, sets

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev", "iproute2")
PATHS = ("src", "src/planner", "apps/taxon", "bench/real_vs_virtual.py", "bench/harness", "bench/recipes/real-vs-virtual.yaml", "tools/lab")
RECIPE = os.path.join(ROOT, "bench", "recipes", "real-vs-virtual.yaml")
MEDIAN_WANTED, WORST_WANTED = 0.07, 0.15
CLOSE = 0.02  # bytes of a step
TURNS = {"smoke": 1, "quick": 3, "full": 3}  # of every setting
PROFILE_STEPS = {"smoke": 3, "quick": 15, "full": 30}  # in each turn
STALENESS_WANTED = (0.10, 0.25)  # of the mean, or updates


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
PAIRS, PAIRS_SLOW = Lab("2 x 2 at 1gbit", 2, "1gbit", 0.9, 2), Lab("2 x 2 at 100mbit", 2, "100mbit", 0.9, 2)
MLP, CNN, RESNET = Model("mlp", 32), Model("cnn", 64), Model("resnet18", 4)


def collective(name):
    return f"exchange.levels.0.collective={name}"


RING, HALVING, TREE = collective("ring"), collective("halving_doubling"), collective("tree")
BACKWARD, PRIORITY = "exchange.order=backward", "exchange.order=priority"
SHARDED = "exchange.levels.0.topology=sharded"

# Sums inside a host first, then between hosts.
HIERARCHICAL = ("exchange.levels=[{group: node}, {group: across}]",)
BY_GROUP = ("exchange.levels=[{group: node}, {group: across, rule: average, period: 8}]",)

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
    Setting(PAIRS, MLP, HIERARCHICAL, (60, 200), "hierarchical"),
    Setting(PAIRS, CNN, HIERARCHICAL, (0, 60), "hierarchical"),
    Setting(PAIRS_SLOW, CNN, HIERARCHICAL, (0, 20), "hierarchical"),
    Setting(PAIRS, CNN, BY_GROUP, (0, 64), "averages between hosts"),
)
SMOKE = (ONE_HOST.name + " mlp", "hierarchical")


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


@dataclasses.dataclass
class Turn:
    """Of a setting: a real run, and what was predicted of it by a profile that was taken just before."""
    real: dict
    simulated: dict
    others: float  # cores that other work took meanwhile


class Place(Twin):
    """The settings of a lab."""

    def turn(self, setting, steps):
        """None where other work, which a smoke run may have, left a calibrated machine fewer cores than its hosts have."""
        model = setting.model
        self.profiles[model] = self.take_profile(model, PROFILE_STEPS[self.session.mode], model.name)
        try:
            simulated = self.simulate(model, setting.overrides, setting.steps[1] if setting.title else 20)
        except SideFailed as error:
            if not self.session.smoke() or self.quiet():
                raise
            print(f"skipped: {setting.name()}: measured beside other work ({error})", file=sys.stderr)
            return None
        return Turn(self.train(setting, steps), simulated, self.disturbed[f"profile of {model.name}"])

    def train(self, setting, steps):
        with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
            overrides = [*setting.model.overrides(), *setting.overrides, f"length.steps={steps}"]
            self.as_job("train", ["train", RECIPE, "--out", out, *sets(overrides)])
            with open(os.path.join(out, "summary.json")) as file:
                return json.load(file)


def row_of(setting):
    lab = setting.lab
    return Row("real-vs-virtual", setting.name(), transport="tcp" if lab.rate else "shared memory", ranks=lab.ranks(),
               peer="the real run")


def steps_of(setting, turn):
    """Simulated and real, in milliseconds."""
    real, simulated = turn.real, turn.simulated
    if not setting.title:
        return simulated["step_seconds"]["median"] * 1e3, real["step_ms"]["p50"]
    batch = real["samples"] / real["steps"]
    return 1e3 * batch / simulated["samples_per_second"], 1e3 * batch / real["samples_per_second"]


def compare(place, setting, steps, turns):
    row, real, simulated = row_of(setting), turns[0].real, turns[0].simulated
    ours, theirs = zip(*(steps_of(setting, turn) for turn in turns))
    row.ours, row.theirs, row.unit = statistics.median(ours), statistics.median(theirs), "ms"
    row.ratio, row.spread = pairs.ratio(True, ours, theirs)
    row.bytes = real["parameters"] * 4
    with open(place.cluster_file) as file:
        cluster = file.read()
    row.settings = {"error": round(row.ratio - 1, 4), "steps": steps, "batch_per_worker": setting.model.batch,
                    "cores_per_host": setting.lab.cores_per_host, "network": "emulated" if setting.lab.rate else "measured",
                    "real_compute_ms": real["compute_ms"], "real_exposed_ms": real["exposed_communication_ms"],
                    "simulated_seconds": simulated["breakdown_seconds"], "cluster": cluster, "discipline": setting.title, "turns": len(turns),
                    "bytes_sent_per_step": [real["bytes_sent_per_step"], simulated["bytes_sent_per_step"]],
                    "others": {"calibration": place.disturbed["calibration"], "profiles": max(turn.others for turn in turns)}}
    row.verified = verified(row, setting, place.session.smoke())
    if "staleness" in real:
        row.settings["staleness"] = {"real": real["staleness"]["mean"], "simulated": simulated["staleness"]["mean"]}
    return row.want("error", at_least=-WORST_WANTED, at_most=WORST_WANTED)


def verified(row, setting, smoke):
    """What was simulated is what ran, by its bytes, and was measured without other work beside it, which a smoke run may have."""
    real, simulated = row.settings["bytes_sent_per_step"]
    same = bool(setting.title) or abs(simulated - real) <= CLOSE * real
    return same and (smoke or all(cores <= MOST_OTHERS for cores in row.settings["others"].values()))


def run_lab(session, lab, settings):
    """`settings`: with their numbers of steps."""
    with lab.open() as cluster, tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
        place = Place(session, lab, cluster, folder, RECIPE)
        chosen = {setting: functools.partial(place.turn, setting, steps) for setting, steps in settings}
        turns = pairs.take_turns(chosen, TURNS[session.mode])
        for setting, steps in settings:
            if None not in turns[setting]:
                session.rows.add(compare(place, setting, steps, turns[setting]))


def run(session):
    if session.peers_only:
        return
    chosen = {}
    for setting in (*SETTINGS, *DISCIPLINES):
        steps = setting.steps[0 if session.quick() else 1]
        if session.smoke():
            steps = min(steps, 8) if any(part in setting.name() for part in SMOKE) else 0
        if steps and not session.rows.has(row_of(setting)):
            chosen.setdefault(setting.lab, []).append((setting, steps))
    for lab, settings in chosen.items():
        try:
            run_lab(session, lab, settings)
        except NoCluster as error:
            session.skip(lab.name, error)


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
    return lines


def claims(rows):
    share, updates = STALENESS_WANTED

    def late(row):
        at = row.settings["staleness"]
        return abs(at["simulated"] - at["real"]) <= max(updates, share * at["real"])

    return [claim("real-vs-virtual", "steps: median error, as a share", [abs(row.settings["error"]) for row in rows if not row.settings["discipline"]],
                  statistics.median, at_most=MEDIAN_WANTED),
            claim("real-vs-virtual", f"mean staleness within {100 * share:g} % or {updates:g} updates: share of the settings",
                  [float(late(row)) for row in rows if "staleness" in row.settings], statistics.mean, at_least=1)]


def summary(rows):
    return [*section([row for row in rows if not row.settings["discipline"]], "median step"),
            *section([row for row in rows if row.settings["discipline"]], "a global batch, on average"), "hosts of the test cluster are emulated"]
