"""gs-SGD beside its rivals in the setting in which they are published, simulated: one GPU a server, Ethernet, codecs that cost what their
operations and bytes take on the device. Bytes are checked against their closed forms."""
import dataclasses
import json
import math
import os
import subprocess
import tempfile

from harness.build import ROOT
from harness.rows import Row
from harness.side import SideFailed

PACKAGES = ("libtorch-dev", "libucx-dev")
RECIPE = os.path.join(ROOT, "bench", "recipes", "gs-sgd.yaml")
PROFILE = os.path.join(ROOT, "profiles", "vgg16_cifar.yaml")
CLUSTERS = {"1 Gbit/s": "v100-1g", "10 Gbit/s": "v100-10g"}
RANKS = {"quick": (4, 16, 32), "full": (4, 8, 16, 32, 64, 128, 256)}
DENSITY = 0.01
WORD = 4
CODEC = "exchange.levels.0.codec."
GTOPK, SERVER = "gTop-k", "Sketched-SGD-like"
PLAIN = "gs-SGD"
# Steps between the two lengths of a run whose difference is what one step takes: a multiple of every cycle, and no beginning is in it.
CYCLE = 16
GOALS = {GTOPK: 3.1, SERVER: 1.2}
GOAL_RANKS = (16, 32)
CLOSE = 0.01  # of the closed form


@dataclasses.dataclass(frozen=True)
class Sketch:
    """Sizes as shares of the values."""
    columns: float
    rows: int = 5
    candidates: int = 1
    bytes_per_bucket: int = 4
    reuse: int = 1

    def table_bytes(self, count):
        columns = max(1, math.ceil(math.ceil(self.columns * count) / 16)) * 16
        return self.rows * columns * self.bytes_per_bucket

    def overrides(self):
        table = "bfloat16" if self.bytes_per_bucket == 2 else "float32"
        return (CODEC + "name=count_sketch", f"{CODEC}columns={self.columns}", f"{CODEC}rows={self.rows}", f"{CODEC}table={table}",
                f"{CODEC}candidates={self.candidates}", f"{CODEC}reuse={self.reuse}")

    def sent(self, count, ranks):
        """Bytes that a rank sends in a step by reduce-scatter and all-gather: flat in the number of ranks."""
        return 2 * (ranks - 1) / ranks * (self.table_bytes(count) / self.reuse + self.candidates * entries(count) * WORD)


def entries(count):
    return round(DENSITY * count)


@dataclasses.dataclass(frozen=True)
class System:
    name: str
    overrides: tuple
    sent: object  # (values, ranks) -> bytes that a rank sends in a step, the mean
    sketch: Sketch = None


def by_sketch(name, sketch, collective="halving_doubling"):
    def sent(count, ranks):
        if collective != "tree":
            return sketch.sent(count, ranks)
        return 2 * (ranks - 1) / ranks * (sketch.table_bytes(count) / sketch.reuse + sketch.candidates * entries(count) * WORD)
    return System(name, (*sketch.overrides(), f"exchange.levels.0.collective={collective}"), sent, sketch)


def list_bytes(count):
    """A list of entries: places and values behind a head, either padded to a line."""
    return 32 + 2 * 64 * math.ceil(entries(count) * WORD / 64)


# What is published: sizes where training still converges with four candidates for an entry (docs/compression.md).
PUBLISHED = Sketch(0.02, candidates=4)
SYSTEMS = (
    System("dense", (CODEC + "name=none", "exchange.levels.0.collective=halving_doubling"), lambda count, ranks: 2 * (ranks - 1) / ranks * count * WORD),
    System(GTOPK, (CODEC + "name=gtop_k",), lambda count, ranks: 2 * (ranks - 1) / ranks * list_bytes(count)),
    by_sketch(PLAIN + ", tree", PUBLISHED, "tree"),
    by_sketch(PLAIN, PUBLISHED),
    by_sketch("+ every exact value counts", dataclasses.replace(PUBLISHED, candidates=1)),
    by_sketch("+ bfloat16 table", dataclasses.replace(PUBLISHED, candidates=1, bytes_per_bucket=2)),
    by_sketch("+ one sketch for 4 steps", dataclasses.replace(PUBLISHED, candidates=1, bytes_per_bucket=2, reuse=4)),
    by_sketch("+ one sketch for 8 steps", dataclasses.replace(PUBLISHED, candidates=1, bytes_per_bucket=2, reuse=8)),
    by_sketch("+ one sketch for 16 steps", dataclasses.replace(PUBLISHED, candidates=1, bytes_per_bucket=2, reuse=16)),
)


def targets(peers_only):
    return [] if peers_only else ["taxon"]


def simulate(session, cluster, ranks, system, steps):
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
        out = os.path.join(folder, "run.json")
        sets = [f"{CODEC}density={DENSITY}", *system.overrides]
        command = [session.program("taxon"), "simulate", RECIPE, "--cluster", os.path.join(ROOT, "clusters", cluster + ".yaml"), "--profile",
                   PROFILE, "--workers", str(ranks), "--steps", str(steps), "--json", out, *(word for one in sets for word in ("--set", one))]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SideFailed(f"{' '.join(command)} failed: {done.stderr.strip()}")
        with open(out) as file:
            return json.load(file)


@dataclasses.dataclass
class Seen:
    """Of one step."""
    seconds: float
    sent: float  # bytes of a rank
    messages: float  # of a rank
    codec_seconds: float
    values: int


def measure(session, cluster, ranks, system):
    """The difference of two runs: what the first steps and the setting up take is in neither."""
    short, long = (simulate(session, cluster, ranks, system, steps) for steps in (2 * CYCLE, 3 * CYCLE))
    def per_step(of):
        return (of(long) - of(short)) / CYCLE
    uses = long.get("codecs", [])
    return Seen(seconds=sum(long["step_seconds"]["all"][-CYCLE:]) / CYCLE,
                sent=(long["bytes_sent_per_step"] * 3 - short["bytes_sent_per_step"] * 2),
                messages=per_step(lambda run: run["messages"]) / ranks,
                codec_seconds=sum(use["encode_ms"] + use["decode_ms"] for use in uses) / 1e3,
                values=sum(bucket["bytes"] for bucket in long["buckets"]) // WORD)


def at_a_server(plain, dense, ranks, rate):
    """Sketched-SGD: sketches of all go to a server, its candidates to all, their exact values back, and what was chosen to all; it has one
    link, which carries each of these for every worker. What it encodes and decodes is as in gs-SGD; its compute is the dense run's."""
    count, k = plain.values, entries(plain.values)
    table = PUBLISHED.table_bytes(count)
    seconds = ranks * (table + 3 * k * WORD) / rate
    compute = dense.seconds - 2 * (ranks - 1) / ranks * count * WORD / rate
    return Seen(compute + plain.codec_seconds + seconds, (table + k * WORD), 2, plain.codec_seconds, count)


def border(sketch, count, most=1 << 20):
    """The least power of two of ranks from which gs-SGD's wire is shorter than gTop-k's, latency left aside: sums of a table and of exact
    values, 2 (P-1)/P (T/R + c k) words, against log2(P) merges of 2 k words and a pipelined broadcast of as many from a binary tree, which
    takes two of them. None: never."""
    ranks, k = 2, entries(count)
    while ranks <= most:
        if sketch.sent(count, ranks) < (math.log2(ranks) + 2) * list_bytes(count):
            return ranks
        ranks *= 2
    return None


def rate_of(cluster):
    return {"v100-1g": 941e6 / 8, "v100-10g": 9.41e9 / 8}[cluster]


def run_setting(session, link, ranks):
    cluster, done = CLUSTERS[link], {}
    probe = Row("gs-sgd", f"{SYSTEMS[-1].name}, {link}", "simulated", ranks, peer=GTOPK)
    if session.rows.has(probe):
        return
    for system in SYSTEMS:
        done[system.name] = measure(session, cluster, ranks, system)
    done[SERVER] = at_a_server(done[PLAIN], done["dense"], ranks, rate_of(cluster))
    samples = 32 * ranks
    for name, seen in done.items():
        row = Row("gs-sgd", f"{name}, {link}", "simulated", ranks, int(seen.sent), peer=GTOPK)
        row.ours, row.theirs, row.unit = samples / seen.seconds, samples / done[GTOPK].seconds, "samples/s"
        row.ratio = row.ours / row.theirs
        system = next((system for system in SYSTEMS if system.name == name), None)
        row.settings = {"step_ms": 1e3 * seen.seconds, "messages_per_rank": seen.messages, "codec_ms": 1e3 * seen.codec_seconds,
                        "against": {peer: done[peer].seconds / seen.seconds for peer in (GTOPK, SERVER)}, "values": seen.values}
        if system:
            expected = system.sent(seen.values, ranks)
            row.settings["closed_form_bytes"] = expected
            row.verified = abs(seen.sent - expected) <= CLOSE * expected
            if system.sketch:
                row.settings["faster_than_gtopk_from"] = border(system.sketch, seen.values)
        session.rows.add(row)


def run(session):
    if session.peers_only:
        return
    for link in CLUSTERS:
        for ranks in RANKS[session.mode]:
            run_setting(session, link, ranks)


def summary(rows):
    lines = []
    for link in CLUSTERS:
        here = [row for row in rows if row.case.endswith(", " + link)]
        ranks = sorted({row.ranks for row in here})
        if not ranks:
            continue
        lines.append(f"{link}, step in ms (times {GTOPK}'s throughput), simulated; P = {', '.join(map(str, ranks))}; bytes and messages of a rank at "
                     f"the largest:")
        for name in dict.fromkeys(row.case for row in here):
            mine = {row.ranks: row for row in here if row.case == name}
            cells = "  ".join(f"{mine[p].settings['step_ms']:8.1f} ({mine[p].ratio:.2f})" for p in ranks)
            last = mine[ranks[-1]]
            edge = last.settings.get("faster_than_gtopk_from")
            lines.append(f"  {name.removesuffix(', ' + link):28} {cells}  {last.bytes / 1e6:8.2f} MB {last.settings['messages_per_rank']:6.1f}"
                         + (f"  wire shorter than {GTOPK}'s from P = {edge}" if edge else ""))
    for row in rows:
        if row.case == f"{SYSTEMS[-1].name}, 1 Gbit/s" and row.ranks in GOAL_RANKS:
            against = row.settings["against"]
            lines.append(f"P = {row.ranks}: " + ", ".join(f"{against[peer]:.2f} times {peer}'s throughput (goal {goal})" for peer, goal in GOALS.items()))
    return lines
