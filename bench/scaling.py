"""Strong scaling of two networks with large fully connected layers, VGG-A and OverFeat (fast) at a quarter of their widths, on 1 to 8 hosts of the test
cluster: data parallel, model parallel (every layer split over all hosts), and hybrid (layers of many activations by samples, layers of many weights split), each
beside the step that the balance equations of docs/parallelism.md allow, and the one that the virtual world says.

The global batch is one and the same, and so are the weights at the start and the samples of every step: the loss of every step must be the one host's."""
import contextlib
import dataclasses
import functools
import json
import os
import random
import re
import statistics
import tempfile

import hybrid
from harness import equal, pairs
from harness.build import ROOT
from harness.cluster import NoCluster
from harness.group import background
from harness.rows import Row, claim
from harness.stream import stream_bandwidth
from harness.training import job_environments
from harness.twin import UNTIMED, Lab, Twin, read_profile, read_run, sets

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "libucx-dev", "iproute2")
PATHS = ("src", "src/planner", "apps/taxon", "bench/scaling.py", "bench/hybrid.py", "bench/harness", "bench/bounds", "bench/recipes/scaling.yaml", "tools/lab")
RECIPE = os.path.join(ROOT, "bench", "recipes", "scaling.yaml")
# Hosts of two cores with 1 Gbit/s, in all ten times slower.
RATE, CORES, HOSTS, PERIOD_MS = "100mbit", 0.2, 8, 5  # of quotas: as overlap has it
BATCH, CLASSES, NUMBER = 192, 10, 4  # the recipe's; bytes of a number
STEPS = {"smoke": (3, 1), "quick": (8, 1), "full": (10, 3)}  # and turns
RANKS = {"smoke": (1, 2), "quick": (1, 8), "full": (1, 2, 4, 8)}
PROFILE_STEPS = {"smoke": 3, "quick": 4, "full": 4}  # in each turn
# Of which two warm up, and behind the last one nothing hides.
SIMULATED_STEPS = {"exact": {"smoke": 4, "quick": 5, "full": 6}, "timing": {"smoke": 10, "quick": 10, "full": 10}}
ERROR_WANTED, OF_ALLOWED_WANTED = 0.10, 0.85
CLOSE = 0.02  # bytes of a step


def targets(peers_only):
    return ["taxon", "bench_tcp_stream"]


# ---- networks and the closed form ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Layer(hybrid.Layer):
    """As hybrid's: `inputs` of a sample, `weights` with biases."""
    name: str = ""

    def is_linear(self):
        return self.name.startswith("fc")


@dataclasses.dataclass(frozen=True)
class Convolution:
    channels: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    pools: bool = False


VGG_A = (Convolution(64, pools=True), Convolution(128, pools=True), Convolution(256), Convolution(256, pools=True), Convolution(512), Convolution(512, pools=True),
         Convolution(512), Convolution(512, pools=True))
OVERFEAT = (Convolution(96, 11, 4, 0, True), Convolution(256, 5, 1, 0, True), Convolution(512), Convolution(1024), Convolution(1024, pools=True))


@dataclasses.dataclass(frozen=True)
class Network:
    """`extent`: height and width of its images."""
    name: str
    convolutions: tuple
    hidden: tuple
    extent: int
    width: float = 0.25

    def layers(self, channels=1, classes=CLASSES):
        found, extent = [], self.extent
        for one in self.convolutions:
            out = max(1, round(one.channels * self.width))
            found.append(Layer(channels * extent * extent, (one.kernel ** 2 * channels + 1) * out, f"conv{len(found) + 1}"))
            extent = ((extent + 2 * one.padding - one.kernel) // one.stride + 1) // (2 if one.pools else 1)
            channels = out
        features = channels * extent * extent
        for number, out in enumerate([*(round(features_ * self.width) for features_ in self.hidden), classes], 6):
            found.append(Layer(features, (features + 1) * out, f"fc{number}"))
            features = out
        return found

    def overrides(self, folder):
        return [f"model.name={self.name}", f"model.width_multiplier={self.width}", f"data.path={os.path.join(folder, str(self.extent))}"]


NETWORKS = (Network("vgg-a", VGG_A, (4096, 4096), 64), Network("overfeat-fast", OVERFEAT, (3072, 4096), 167))
SMOKE = dataclasses.replace(NETWORKS[0], extent=32)
ALONE, DATA, MODEL, HYBRID = "one host", "data parallel", "model parallel", "hybrid"


@dataclasses.dataclass(frozen=True)
class Sent:
    """Bytes that a rank sends in a step."""
    weights: float  # gradients of weights, and weights: beside computation
    activations: float  # for layers that are split: the next layer waits for them

    def __add__(self, other):
        return Sent(self.weights + other.weights, self.activations + other.activations)

    def total(self):
        return self.weights + self.activations


def sent_for(layer, groups, ranks):
    """The balance equations, with what n members of a collective send."""
    both = hybrid.sent_by(layer, BATCH, groups, ranks)
    weights = hybrid.sent_by(Layer(0, layer.weights), BATCH, groups, ranks)
    return Sent(weights, both - weights)


def sent(network, technique, ranks, members):
    """Convolutions of a hybrid are data parallel of all ranks, its linear layers split inside groups."""
    groups = {ALONE: 1, DATA: ranks, MODEL: 1, HYBRID: ranks // members}[technique]
    found = Sent(0, 0)
    for layer in network.layers():
        found += sent_for(layer, ranks if technique == HYBRID and not layer.is_linear() else groups, ranks)
    return found


def best_members(network, ranks):
    """Of the hybrids, the size of groups with the fewest bytes."""
    return min((members for members in range(2, ranks + 1) if ranks % members == 0), key=lambda members: sent(network, HYBRID, ranks, members).total())


def allowed(alone, ranks, bytes_sent, bandwidth):
    """Seconds of a step at best: computation in equal parts, beside which weights travel, and activations, for which it waits."""
    return max(alone / ranks, bytes_sent.weights / bandwidth) + bytes_sent.activations / bandwidth


# ---- runs ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Point:
    network: Network
    technique: str
    ranks: int

    def members(self):
        return {ALONE: 1, DATA: 1, MODEL: self.ranks, HYBRID: best_members(self.network, self.ranks) if self.ranks > 1 else 1}[self.technique]

    def overrides(self):
        split = [f"mesh.tensor={self.members()}"] if self.members() > 1 else []
        return [*split, *(["mesh.splits=[auto]"] if self.technique == HYBRID else [])]

    def fidelity(self):
        """What parts of layers hand on real models know alone."""
        return "exact" if self.members() > 1 else "timing"

    def name(self):
        return f"{self.network.name}, " + (self.technique if self.technique == ALONE else f"{self.ranks} hosts, {self.technique}")


def points_of(network, counts):
    return [Point(network, ALONE, 1), *(Point(network, technique, ranks) for ranks in counts if ranks > 1 for technique in (DATA, MODEL, HYBRID))]


def npy(path, kind, shape, values):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values)


def write_samples(folder, extent, count):
    """Seeded pictures of noise, each of ten classes around one of its own."""
    draw = random.Random(extent)
    classes = [draw.randbytes(extent * extent) for _ in range(CLASSES)]
    for name, size in (("train", count), ("test", 8)):
        place = os.path.join(folder, str(extent), name)
        os.makedirs(place, exist_ok=True)
        labels = [number % CLASSES for number in range(size)]
        samples = b"".join(bytes((a + b) // 2 for a, b in zip(classes[label], draw.randbytes(extent * extent))) for label in labels)
        npy(os.path.join(place, "samples.npy"), "|u1", (size, 1, extent, extent), samples)
        npy(os.path.join(place, "labels.npy"), "<i8", (size,), b"".join(label.to_bytes(8, "little") for label in labels))


@dataclasses.dataclass(frozen=True)
class Trained:
    """What a host computes at a point, as Twin.profile() takes models."""
    point: Point
    data: str

    @property
    def name(self):
        return self.point.name()

    def overrides(self):
        return [*self.point.network.overrides(self.data), *self.point.overrides()]


def without_processor_costs(cluster):
    """Messages cost nothing, and a host's share of a core comes in pieces of microseconds."""
    found = re.sub(r"^ *(send_time|receive_time|send_speed|receive_speed): .*\n", "", cluster, flags=re.MULTILINE)
    return re.sub(r"(quota_period): .*", r"\1: 5e-05", found)


def passes(profile):
    """By which profiles of one point are compared."""
    with open(profile) as file:
        return sum(one["forward"] + one["backward"] for one in read_profile(file.read()))


class Place(Twin):
    """The cluster, of which a point takes the first hosts."""

    @contextlib.contextmanager
    def on(self, ranks):
        whole, self.lab = self.lab, dataclasses.replace(self.lab, hosts=ranks)
        try:
            yield
        finally:
            self.lab = whole

    def train(self, point, data, steps):
        with self.others_train(point, data), self.on(point.ranks), tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
            overrides = [*Trained(point, data).overrides(), f"length.steps={steps}"]
            self.as_job(f"train {point.name()}", ["train", RECIPE, "--out", out, *sets(overrides)])
            return read_run(out, self.session.mode)

    def others_train(self, point, data):
        """Hosts that the point leaves out train meanwhile, each alone and as many samples as one of the point's: all share this machine's cores and caches,
        so that a host is as fast whatever their number, as real ones are. They are at it when the point begins: what they load is none of its matter."""
        share = [*point.network.overrides(data), f"batch.global={BATCH // point.ranks}", "length.steps=1000000"]
        out = tempfile.mkdtemp(prefix="others-", dir=self.folder)
        folders = {host: os.path.join(out, str(host)) for host in range(point.ranks, self.lab.hosts)}
        commands = [self.cluster.command(host, [self.taxon, "train", RECIPE, "--out", folder, *sets(share)]) for host, folder in folders.items()]
        metrics = [os.path.join(folder, "metrics.jsonl") for folder in folders.values()]
        return background("others", commands, [job_environments(1, None, "Taxon")[0] for _ in folders], self.session.log_folder,
                          begun=lambda: all(os.path.exists(path) and os.path.getsize(path) for path in metrics))

    def profiled(self, trained):
        """A file, by all hosts at once; in turn with the runs, since what a core can do moves within minutes."""
        name = f"{trained.name}-{len(os.listdir(self.folder))}"
        return self.take_profile(trained, PROFILE_STEPS[self.session.mode], name, trained.point.ranks)

    def simulated(self, point, data):
        with self.on(point.ranks):
            fidelity = point.fidelity()
            return self.simulate(Trained(point, data), (), SIMULATED_STEPS[fidelity][self.session.mode], fidelity)

    @contextlib.contextmanager
    def free_of_processors(self):
        """On hosts like these but that messages cost their processors nothing, and quotas make nobody wait: of both the balance equations know nothing."""
        measured, self.cluster_file = self.cluster_file, os.path.join(self.folder, "free.yaml")
        try:
            with open(measured) as file, open(self.cluster_file, "w") as free:
                free.write(without_processor_costs(file.read()))
            yield
        finally:
            self.cluster_file = measured


def row_of(point):
    return Row("scaling", point.name(), "tcp" if point.ranks > 1 else None, point.ranks, peer="the virtual world", unit="ms")


def add_row(place, point, runs, alone, simulated, bandwidth, facts):
    row, steps = row_of(point), [run.step for run in runs]
    step, one = statistics.median(steps), statistics.median(run.step for run in alone)
    by_form = sent(point.network, point.technique, point.ranks, point.members())
    best = allowed(one, point.ranks, by_form, bandwidth)
    row.ours, row.theirs, row.spread = 1e3 * step, 1e3 * simulated["step_seconds"]["median"], pairs.relative_spread(steps)
    row.ratio, row.bound, row.of_bound = row.theirs / row.ours, 1e3 * best, best / step
    row.bytes = NUMBER * runs[0].summary["parameters"]
    bytes_sent = [runs[0].summary["bytes_sent_per_step"], simulated["bytes_sent_per_step"]]
    row.settings = {**facts, "network_trained": point.network.name, "technique": point.technique, "members": point.members(), "error": round(row.theirs / row.ours - 1, 4),
                    "times_as_fast": one / step, "efficiency": one / step / point.ranks, "allowed_efficiency": one / best / point.ranks,
                    "compute_ms": 1e3 * statistics.median(run.computation for run in runs), "exposed_ms": 1e3 * statistics.median(run.exposed for run in runs),
                    "bytes_sent_per_step": bytes_sent, "bytes_by_the_equations": by_form.total(),
                    "worst_loss_difference": max(equal.worst_difference(a.losses, alone[0].losses) for a in runs), "others": place.disturbed}
    row.verified = (all(equal.same(run.losses, alone[0].losses) for run in runs) and abs(bytes_sent[1] - bytes_sent[0]) <= CLOSE * max(1, bytes_sent[0]) and
                    runs[0].summary["parameters"] == sum(layer.weights for layer in point.network.layers()) and (place.session.smoke() or place.quiet()))
    place.session.rows.add(row.want("error", at_least=-ERROR_WANTED, at_most=ERROR_WANTED))


def run_network(place, network, data, bandwidth):
    session = place.session
    points = points_of(network, RANKS[session.mode])
    if all(session.rows.has(row_of(point)) for point in points):
        return
    steps, rounds = STEPS[session.mode]
    turns = {}
    for point in points:
        trained = Trained(point, data)
        turns |= {point: functools.partial(place.train, point, data, steps), trained: functools.partial(place.profiled, trained)}
    runs = pairs.take_turns(turns, rounds)
    place.profiles |= {one: sorted(runs[one], key=passes)[rounds // 2] for one in turns if isinstance(one, Trained)}
    facts = {"network": "emulated", "rate": RATE, "cores_per_host": CORES, "cpu_period_ms": PERIOD_MS, "batch": BATCH, "width": network.width, "extent": network.extent,
             "steps": steps, "untimed_steps": UNTIMED[session.mode], "turns": rounds, "stream_bytes_per_second": round(bandwidth)}
    for point in (point for point in points if not session.rows.has(row_of(point))):
        simulated = place.simulated(point, data)
        with place.free_of_processors():
            free = place.simulated(point, data)
        more = {"fidelity": point.fidelity(), "simulated_free_of_processors_ms": 1e3 * free["step_seconds"]["median"]}
        add_row(place, point, runs[point], runs[points[0]], simulated, bandwidth, facts | more)


def run(session):
    if session.peers_only:
        return
    lab = Lab("8 hosts", HOSTS if not session.smoke() else max(RANKS["smoke"]), RATE, CORES, cpu_period_ms=PERIOD_MS)
    networks = (SMOKE,) if session.smoke() else NETWORKS
    try:
        with lab.open() as cluster, tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
            for network in networks:
                write_samples(folder, network.extent, BATCH * STEPS[session.mode][0])
            bandwidth = stream_bandwidth(session, cluster)
            place = Place(session, lab, cluster, folder, RECIPE)
            for network in networks:
                run_network(place, network, folder, bandwidth)
    except NoCluster as error:
        session.skip("the test cluster", error)


def claims(rows):
    found = {(row.settings["network_trained"], row.settings["technique"], row.ranks): row for row in rows}
    for name in dict.fromkeys(row.settings["network_trained"] for row in rows):
        here = {technique: found.get((name, technique, HOSTS)) for technique in (DATA, MODEL, HYBRID)}
        for technique in (DATA, MODEL):
            both = [here[technique], here[HYBRID]]
            yield claim("scaling", f"{name}, {HOSTS} hosts: hybrid, times as fast as {technique}", [both[0].ours / both[1].ours] if all(both) else [], min, at_least=1)
        yield claim("scaling", f"{name}, {HOSTS} hosts: efficiency of hybrid over what the balance equations allow", [here[HYBRID].of_bound] if here[HYBRID] else [], min,
                    at_least=OF_ALLOWED_WANTED)
    yield claim("scaling", "simulated steps: farthest from the measured ones, as a share", [abs(row.settings["error"]) for row in rows if row.ranks > 1], max,
                at_most=ERROR_WANTED)


def summary(rows):
    lines = [f"{'point':40} {'times as fast':>14} {'efficiency':>11} {'allowed':>8}"]
    for row in rows:
        at = row.settings
        lines.append(f"{row.case:40} {at['times_as_fast']:13.2f}x {100 * at['efficiency']:9.1f} % {100 * at['allowed_efficiency']:6.1f} %")
    return [*lines, "hosts of the test cluster are emulated"]
