"""gs-SGD beside its rivals in the setting in which they are published, simulated: one GPU a server, Ethernet, codecs that cost what their
operations and bytes take on the device. Bytes are checked against their closed forms. Then its exchange alone in the test cluster, with codecs
that take as long as alone on one core (replayed) and as long as they take there."""
import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from harness import machine
from harness.build import ROOT
from harness.cluster import Cluster, NoCluster
from harness.rows import Row
from harness.side import Side, SideFailed
from harness.stream import stream_bandwidth

PACKAGES = ("libtorch-dev", "libucx-dev", "iproute2")
RECIPE = os.path.join(ROOT, "bench", "recipes", "gs-sgd.yaml")
PROFILE = os.path.join(ROOT, "profiles", "vgg16_cifar.yaml")
CLUSTERS = {"1 Gbit/s": "v100-1g", "10 Gbit/s": "v100-10g"}
RANKS = {"quick": (4, 16, 32), "full": (4, 8, 16, 32, 64, 128, 256)}
DENSITY = 0.01
WORD = 4
CODEC = "exchange.levels.0.codec."
GTOPK, SERVER = "gTop-k", "Sketched-SGD, one server"
PLAIN = "gs-SGD"
# Steps between the two lengths of a run whose difference is what one step takes: a multiple of every cycle, and no beginning is in it.
CYCLE = 16
GOALS = {GTOPK: 3.1, SERVER: 1.2}
GOAL_RANKS = (16, 32)
CLOSE = 0.01  # of the closed form
HEAD, SERVER_HEAD = 32, 64


def padded(size):
    return 64 * math.ceil(size / 64)


@dataclasses.dataclass(frozen=True)
class Sketch:
    """Sizes as shares of the values."""
    columns: float
    rows: int = 5
    candidates: int = 1
    bytes_per_bucket: int = 4
    reuse: int = 1
    neighbours: int = 1

    def table_bytes(self, count):
        columns = max(1, math.ceil(math.ceil(self.columns * count) / 16)) * 16
        return self.rows * columns * self.bytes_per_bucket

    def overrides(self):
        table = "bfloat16" if self.bytes_per_bucket == 2 else "float32"
        return (CODEC + "name=count_sketch", f"{CODEC}columns={self.columns}", f"{CODEC}rows={self.rows}", f"{CODEC}table={table}",
                f"{CODEC}candidates={self.candidates}", f"{CODEC}reuse={self.reuse}", f"{CODEC}neighbours={self.neighbours}")

    def fetched(self, count):
        """Entries whose exact values travel."""
        return self.neighbours * math.ceil(self.candidates * entries(count) / self.neighbours)

    def sent(self, count, ranks):
        """Bytes that a rank sends in a step by reduce-scatter and all-gather: flat in the number of ranks."""
        return 2 * (ranks - 1) / ranks * (self.table_bytes(count) / self.reuse + self.fetched(count) * WORD)


def entries(count):
    return round(DENSITY * count)


@dataclasses.dataclass(frozen=True)
class System:
    name: str
    overrides: tuple
    sent: object  # (values, workers) -> bytes that a rank sends in a step, the mean
    sketch: Sketch = None
    servers: int = 0  # beside the workers


def by_sketch(name, sketch, collective="halving_doubling", more=()):
    """By a tree a rank sends as much on average, but its root log P times as much in a row."""
    return System(name, (*sketch.overrides(), f"exchange.levels.0.collective={collective}", *more), sketch.sent, sketch)


def at_a_server(sketch):
    """Sketched-SGD: sketches of all go to a server, its candidates to all, their exact values back, and what became of the chosen to all."""
    def sent(count, workers):
        question, answer = HEAD + padded(sketch.fetched(count) * WORD), list_bytes(count)
        return workers / (workers + 1) * (sketch.table_bytes(count) + question + sketch.fetched(count) * WORD + answer + 2 * SERVER_HEAD)
    return System(SERVER, (*sketch.overrides(), "exchange.levels.0.topology=servers", "mesh.servers=1"), sent, servers=1)


def list_bytes(count):
    """A list of entries: places and values behind a head, either padded to a line."""
    return HEAD + 2 * padded(entries(count) * WORD)


# What is published: sizes where training still converges with four candidates for an entry (docs/compression.md).
PUBLISHED = Sketch(0.02, candidates=4)
SMALLEST = Sketch(0.02, candidates=1, bytes_per_bucket=2, reuse=16)
# Encoded one by one while the backward pass goes on; all others wait for its end.
BUCKETS = ("exchange.bucket_bytes=4MiB", "exchange.slice_bytes=4MiB")
GOAL_SYSTEM = "+ one sketch for 16 steps"
SYSTEMS = (
    System("dense", (CODEC + "name=none", "exchange.levels.0.collective=halving_doubling"), lambda count, ranks: 2 * (ranks - 1) / ranks * count * WORD),
    System(GTOPK, (CODEC + "name=gtop_k",), lambda count, ranks: 2 * (ranks - 1) / ranks * list_bytes(count)),
    at_a_server(PUBLISHED),
    by_sketch(PLAIN + ", tree", PUBLISHED, "tree"),
    by_sketch(PLAIN, PUBLISHED),
    by_sketch("+ every exact value counts", dataclasses.replace(PUBLISHED, candidates=1)),
    by_sketch("+ bfloat16 table", dataclasses.replace(PUBLISHED, candidates=1, bytes_per_bucket=2)),
    by_sketch("+ one sketch for 4 steps", dataclasses.replace(PUBLISHED, candidates=1, bytes_per_bucket=2, reuse=4)),
    by_sketch("+ one sketch for 8 steps", dataclasses.replace(PUBLISHED, candidates=1, bytes_per_bucket=2, reuse=8)),
    by_sketch("+ one sketch for 16 steps", SMALLEST),
    by_sketch("+ blocks of 8 neighbours", dataclasses.replace(SMALLEST, neighbours=8)),
    by_sketch("+ buckets of 4 MiB", SMALLEST, more=BUCKETS),
)


def targets(peers_only):
    return [] if peers_only else ["taxon", EXCHANGES, "bench_tcp_stream"]


def simulate(session, cluster, ranks, system, steps):
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
        out = os.path.join(folder, "run.json")
        sets = [f"{CODEC}density={DENSITY}", *system.overrides]
        command = [session.program("taxon"), "simulate", RECIPE, "--cluster", os.path.join(ROOT, "clusters", cluster + ".yaml"), "--profile",
                   PROFILE, "--workers", str(ranks + system.servers), "--steps", str(steps), "--json", out, *(word for one in sets for word in ("--set", one))]
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
    members = ranks + system.servers
    return Seen(seconds=sum(long["step_seconds"]["all"][-CYCLE:]) / CYCLE,
                sent=(long["bytes_sent_per_step"] * 3 - short["bytes_sent_per_step"] * 2),
                messages=per_step(lambda run: run["messages"]) / members,
                codec_seconds=sum(use["encode_ms"] + use["decode_ms"] for use in uses) / 1e3,
                values=sum(bucket["bytes"] for bucket in long["buckets"]) // WORD)


# ---- the exchange alone, in the test cluster ---------------------------------------------------------------------------

EXCHANGES = "bench_taxon_sketches"
VALUES = 14_719_818  # VGG-16's on CIFAR-10
LABS = {"quick": ((4, "100mbit"),), "full": ((4, "100mbit"), (8, "100mbit"), (4, "1gbit"), (8, "1gbit"))}
LAB_PORT = 29850
NEAR = 0.10  # of the closed form, for seconds
BY_HAND = {"gs-SGD": PUBLISHED, "gs-SGD, smaller": Sketch(0.02, candidates=1, bytes_per_bucket=2, reuse=4)}


def variant_of(sketch):
    """The level's options as bench/ours/sketches.cc takes them."""
    options = {"name": "count_sketch", "density": DENSITY, "columns": sketch.columns, "candidates": sketch.candidates, "reuse": sketch.reuse,
               "table": "bfloat16" if sketch.bytes_per_bucket == 2 else "float32", "collective": "ring"}
    return ",".join(f"{key}={value}" for key, value in options.items())


def exchanges(session, name, commands):
    return Side(name, commands, session.log_folder, [{"TAXON_SECRET": "benchmark"}] * len(commands))


def exchange_command(session, rank, ranks, host, port):
    return [session.program(EXCHANGES), "--rank", str(rank), "--ranks", str(ranks), "--host", host, "--port", str(port), "--job-port", str(port + 1)]


def kernels_alone(session, sketch):
    """Milliseconds of the codec's kernels in one cycle of exchanges, on one core while nothing else works."""
    port = machine.free_ports(2)
    with exchanges(session, "codecs alone", [exchange_command(session, 0, 1, "127.0.0.1", port)]) as side:
        return side.ask(f"run solo {VALUES * WORD} {3 if session.quick() else 7} {sketch.reuse} {variant_of(sketch)}", timeout=600)["detail"]


def measure_exchange(session, side, kind, ranks, sketch, kernels):
    """Seconds and bytes of an exchange, and whether all ranks came to the same."""
    replay = f",replay={kernels}" if kind == "replayed" else ""
    answer = side.ask(f"run {kind} {VALUES * WORD} {3 if session.quick() else 7} {sketch.reuse} {variant_of(sketch)}{replay}", timeout=1800)
    sent, hashes, squares = answer["sums"]
    return statistics.median(answer["seconds"]), sent / ranks, ranks * squares == hashes * hashes


def emulated_row(kind, name, ranks, rate):
    return Row("gs-sgd", f"{name}, {rate}, codecs {kind}", "tcp", ranks, peer="the closed form")


def run_lab(session, ranks, rate, alone):
    missing = [(name, kind) for name in BY_HAND for kind in ("replayed", "real") if not session.rows.has(emulated_row(kind, name, ranks, rate))]
    if not missing:
        return
    with Cluster(ranks, rate) as cluster:
        bandwidth = stream_bandwidth(session, cluster)
        first = cluster.addresses[0]
        commands = [cluster.command(r, exchange_command(session, r, ranks, first, LAB_PORT)) for r in range(ranks)]
        with exchanges(session, "exchanges lab", commands) as side:
            for name, kind in missing:
                sketch, row = BY_HAND[name], emulated_row(kind, name, ranks, rate)
                codec = sum(map(float, alone[name].split(";"))) / 1e3 / sketch.reuse
                row.ours, sent, equal = measure_exchange(session, side, kind, ranks, sketch, alone[name])
                expected = sketch.sent(VALUES, ranks)
                row.unit, row.theirs = "s", codec + expected / bandwidth
                row.bound, row.of_bound, row.ratio = row.theirs, row.theirs / row.ours, row.theirs / row.ours
                row.verified = equal and abs(sent - expected) <= CLOSE * expected
                row.settings = {"network": "emulated", "rate": rate, "values": VALUES, "bytes": sent, "closed_form_bytes": expected, "codecs": kind,
                                "codec_ms_alone": 1e3 * codec, "stream_bytes_per_second": round(bandwidth), "error": row.ours / row.theirs - 1}
                session.rows.add(row)


def run_labs(session):
    alone = {name: kernels_alone(session, sketch) for name, sketch in BY_HAND.items()}
    try:
        for ranks, rate in LABS[session.mode]:
            run_lab(session, ranks, rate, alone)
    except NoCluster as error:
        print(f"skipped: the test cluster ({error})", file=sys.stderr)


def lab_summary(rows):
    lines = []
    for row in rows:
        at = row.settings
        if "codecs" in at:
            wanted = f" (at most {100 * NEAR:g} % off wanted)" if at["codecs"] == "replayed" else ""
            lines.append(f"emulated, {row.ranks} hosts, {row.case}: {row.ours:.3f} s, closed form {row.theirs:.3f} s: {100 * at['error']:+.1f} %{wanted}, "
                         f"{at['bytes'] / 1e6:.2f} MB, {100 * (at['bytes'] / at['closed_form_bytes'] - 1):+.2f} %; codecs alone {at['codec_ms_alone']:.0f} ms")
    return lines


# ---- simulated -----------------------------------------------------------------------------------------------------------


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


def run_setting(session, link, ranks):
    cluster, done = CLUSTERS[link], {}
    probe = Row("gs-sgd", f"{SYSTEMS[-1].name}, {link}", "simulated", ranks, peer=GTOPK)
    if session.rows.has(probe):
        return
    for system in SYSTEMS:
        done[system.name] = measure(session, cluster, ranks, system)
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
    run_labs(session)


def summary(rows):
    lines = []
    for link in CLUSTERS:
        here = [row for row in rows if row.transport == "simulated" and row.case.endswith(", " + link)]
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
        if row.case == f"{GOAL_SYSTEM}, 1 Gbit/s" and row.ranks in GOAL_RANKS:
            against = row.settings["against"]
            lines.append(f"P = {row.ranks}: " + ", ".join(f"{against[peer]:.2f} times {peer}'s throughput (goal {goal})" for peer, goal in GOALS.items()))
    return lines + lab_summary(rows)
