"""gs-SGD beside its rivals, simulated: one GPU a server, Ethernet, codecs that cost what their operations and bytes take on the device. Model,
cluster and sizes are ours: its paper's can't be told from its abstract. Once with as many entries each; once with the sizes of the recipes,
whose accuracies `bench/run convergence` measures, and rivals with the same rights: coded places, values of few bits, momentum correction. Then
one sketch and one number of entries for a whole model, of ten times as many values too. Bytes are checked against their closed forms. At last
exchanges alone in the test cluster, with codecs that take as long as alone on one core (replayed) and as long as they take there."""
import dataclasses
import json
import math
import os
import re
import statistics
import subprocess
import tempfile

from harness import machine
from harness.build import ROOT
from harness.cluster import Cluster, NoCluster
from harness.rows import Row, claim
from harness.side import Side, SideFailed
from harness.stream import stream_bandwidth

PACKAGES = ("libtorch-dev", "libucx-dev", "iproute2")
PATHS = ("src", "src/planner", "apps/taxon", "recipes/systems", "clusters", "profiles", "bench/gs_sgd.py", "bench/recipes/gs-sgd.yaml",
         "bench/recipes/convergence", "bench/ours/sketches.cc", "bench/ours/rank.cc", "bench/ours/rank.h", "bench/side",
         "bench/bounds", "bench/harness", "tools/lab")
RECIPE = os.path.join(ROOT, "bench", "recipes", "gs-sgd.yaml")
PROFILE = os.path.join(ROOT, "profiles", "vgg16_cifar.yaml")
CLUSTERS = {"1 Gbit/s": "v100-1g", "10 Gbit/s": "v100-10g"}
RANKS = {"smoke": (4,), "quick": (4, 16, 32), "full": (4, 8, 16, 32, 64, 128, 256)}
DENSITY = 0.01
WORD = 4
CODEC = "exchange.levels.0.codec."
GTOPK, SERVER = "gTop-k", "Sketched-SGD, one server"
PACKED_GTOPK = "gTop-k, packed"
PLAIN = "gs-SGD"
# Steps between the two lengths of a run whose difference is what one step takes: a multiple of every cycle, and no beginning is in it.
CYCLE = 16
GOAL_SYSTEM = "gs-SGD by parts"
GOALS = {GTOPK: 3.1, SERVER: 1.2, PACKED_GTOPK: 1}
GOAL_RANKS = (16, 32)
CLOSE = 0.01  # of the closed form
HEAD, SERVER_HEAD = 32, 64


def padded(size):
    return 64 * math.ceil(size / 64)


def buckets(count, columns, rows):
    """Of a sketch of so many values."""
    return rows * max(1, math.ceil(math.ceil(columns * count) / 16)) * 16


def entries(count, density):
    return round(density * count)


@dataclasses.dataclass(frozen=True)
class Sketch:
    """Sizes as shares of the values."""
    columns: float
    rows: int = 5
    candidates: int = 1
    bytes_per_bucket: int = 4
    reuse: int = 1
    neighbours: int = 1
    density: float = DENSITY

    def table_bytes(self, count):
        return buckets(count, self.columns, self.rows) * self.bytes_per_bucket

    def overrides(self):
        table = "bfloat16" if self.bytes_per_bucket == 2 else "float32"
        return (CODEC + "name=count_sketch", f"{CODEC}density={self.density}", f"{CODEC}columns={self.columns}", f"{CODEC}rows={self.rows}",
                f"{CODEC}table={table}", f"{CODEC}candidates={self.candidates}", f"{CODEC}reuse={self.reuse}",
                f"{CODEC}neighbours={self.neighbours}")

    def fetched(self, count):
        """Entries whose exact values travel."""
        return self.neighbours * math.ceil(self.candidates * entries(count, self.density) / self.neighbours)

    def sent(self, count, ranks):
        """Bytes that a rank sends in a step by reduce-scatter and all-gather: flat in the number of ranks."""
        return 2 * (ranks - 1) / ranks * (self.table_bytes(count) / self.reuse + self.fetched(count) * WORD)


@dataclasses.dataclass(frozen=True)
class SplitSketch:
    """Sketches of parts for their owners alone, places a byte or a bit each, values in `bits`; sizes as shares of the values."""
    density: float
    columns: float
    rows: int = 3
    table: str = "int8"
    bits: int = 8
    block: int = 256

    def overrides(self):
        return (CODEC + "name=split_sketch", f"{CODEC}density={self.density}", f"{CODEC}columns={self.columns}", f"{CODEC}rows={self.rows}",
                f"{CODEC}table={self.table}", f"{CODEC}bits={self.bits}")

    def wire(self, values, bits):
        blocks = math.ceil(values / self.block)
        return HEAD + padded(4 * blocks) + padded(blocks * self.block * bits // 8)

    def sent(self, count, ranks):
        """Flat in the number of ranks: a table once, the places, and values to their owner and their sums to all."""
        part = math.ceil(count / ranks)
        chosen = entries(part, self.density)
        question = HEAD + padded(min(chosen + part // 255, math.ceil(part / 8)))
        table = self.wire(buckets(part, self.columns, self.rows), int(self.table.removeprefix("int")))
        return (ranks - 1) * (table + question + 2 * self.wire(chosen, self.bits))


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
        question, answer = HEAD + padded(sketch.fetched(count) * WORD), list_bytes(count, sketch.density)
        return workers / (workers + 1) * (sketch.table_bytes(count) + question + sketch.fetched(count) * WORD + answer + 2 * SERVER_HEAD)
    return System(SERVER, (*sketch.overrides(), "exchange.levels.0.topology=servers", "mesh.servers=1"), sent, servers=1)


def list_bytes(count, density):
    """A list of entries: places and values behind a head, either padded to a line."""
    return HEAD + 2 * padded(entries(count, density) * WORD)


def packed_bytes(count, density, bits, block=256):
    """A list of entries with coded places and values of few bits, which have a head of their own."""
    chosen = entries(count, density)
    blocks = math.ceil(chosen / block)
    return (HEAD + padded(min(chosen + count // 255, math.ceil(count / 8))) + HEAD + padded(4 * blocks) + padded(blocks * block * bits // 8))


def list_of(density, bits):
    """Bytes of a list of a range's entries; bits None: places and values are words."""
    return (lambda count: list_bytes(count, density)) if bits is None else (lambda count: packed_bytes(count, density, bits))


def overrides_of(codec, density, bits, more=()):
    words = (f"{CODEC}name={'packed_' if bits else ''}{codec}", f"{CODEC}density={density}")
    return (*words, *((f"{CODEC}bits={bits}",) if bits else ()), *more)


# Momentum correction costs what the memory of errors costs; the wire is the same.
CORRECTED = (CODEC + "momentum=0.9", CODEC + "masking=false")


@dataclasses.dataclass(frozen=True)
class Largest:
    """Lists of the largest entries: gTop-k merges them, Ok-Topk sends them to owners of parts and their sums to all, top-k (DGC) gathers all."""
    codec: str
    density: float
    bits: int = None
    corrected: bool = False

    def overrides(self):
        return overrides_of(self.codec, self.density, self.bits, CORRECTED if self.corrected else ())

    def sent(self, count, ranks):
        """Bytes that a rank sends, the mean."""
        size = list_of(self.density, self.bits)
        if self.codec == "gtop_k":
            return 2 * (ranks - 1) / ranks * size(count)
        if self.codec == "split_top_k":
            return 2 * (ranks - 1) * size(math.ceil(count / ranks))
        return (ranks - 1) * size(count)

    def system(self, name):
        return System(name, self.overrides(), self.sent)


def matrices():
    """Shapes of the parameters of the profile."""
    with open(PROFILE) as file:
        return [[int(extent) for extent in shape.split(",")] for shape in re.findall(r"shape: \[([\d, ]+)\]", file.read())]


def power_sgd(rank):
    """Both factors of a matrix, where they halve it; all else as it is."""
    def sent(_, ranks):
        words = 0
        for shape in matrices():
            size, rows = math.prod(shape), shape[0]
            columns = size // rows
            low = min(rank, rows, columns) * (rows + columns)
            words += low if len(shape) > 1 and 2 * low <= size else size
        return 2 * (ranks - 1) / ranks * words * WORD
    return System("PowerSGD", (CODEC + "name=power_sgd", f"{CODEC}rank={rank}"), sent)


# Sizes where training still converges with four candidates for an entry (docs/compression.md).
PLAIN_SIZES = Sketch(0.02, candidates=4)
SMALLEST = Sketch(0.02, candidates=1, bytes_per_bucket=2, reuse=16)
# Encoded one by one while the backward pass goes on; all others wait for its end.
BUCKETS = ("exchange.bucket_bytes=4MiB", "exchange.slice_bytes=4MiB")
SYSTEMS = (
    System("dense", (CODEC + "name=none", "exchange.levels.0.collective=halving_doubling"), lambda count, ranks: 2 * (ranks - 1) / ranks * count * WORD),
    Largest("gtop_k", DENSITY).system(GTOPK),
    Largest("gtop_k", DENSITY, 4, True).system(PACKED_GTOPK),
    Largest("split_top_k", DENSITY).system("Ok-Topk"),
    Largest("split_top_k", DENSITY, 4, True).system("Ok-Topk, packed"),
    Largest("top_k", DENSITY, corrected=True).system("DGC"),
    power_sgd(2),
    at_a_server(PLAIN_SIZES),
    by_sketch(PLAIN + ", tree", PLAIN_SIZES, "tree"),
    by_sketch(PLAIN, PLAIN_SIZES),
    by_sketch("+ every exact value counts", dataclasses.replace(PLAIN_SIZES, candidates=1)),
    by_sketch("+ bfloat16 table", dataclasses.replace(PLAIN_SIZES, candidates=1, bytes_per_bucket=2)),
    by_sketch("+ one sketch for 4 steps", dataclasses.replace(PLAIN_SIZES, candidates=1, bytes_per_bucket=2, reuse=4)),
    by_sketch("+ one sketch for 8 steps", dataclasses.replace(PLAIN_SIZES, candidates=1, bytes_per_bucket=2, reuse=8)),
    by_sketch("+ one sketch for 16 steps", SMALLEST),
    by_sketch("+ blocks of 8 neighbours", dataclasses.replace(SMALLEST, neighbours=8)),
    by_sketch("+ buckets of 4 MiB", SMALLEST, more=BUCKETS),
)


def codec_of(recipe, folder=("recipes", "systems")):
    """Words and numbers of the codec in a recipe, which stands on one line."""
    with open(os.path.join(ROOT, *folder, recipe + ".yaml")) as file:
        line = next(line for line in file if "codec: {" in line)
    words = dict(re.findall(r"(\w+): ([\w.]+)", line.partition("codec: {")[2]))
    return {key: float(word) if word[0].isdigit() else word for key, word in words.items()}


def sketch_of(recipe):
    codec = codec_of(recipe)
    return Sketch(codec["columns"], int(codec["rows"]), codec["candidates"], 2 if codec["table"] == "bfloat16" else 4, density=codec["density"])


def split_of(recipe):
    codec = codec_of(recipe)
    return SplitSketch(codec["density"], codec["columns"], int(codec["rows"]), codec["table"], int(codec["bits"]))


OURS = ("bench", "recipes", "convergence")


def packed_of(recipe):
    """Of a rival with our own codings, in bench/recipes/convergence."""
    codec = codec_of(recipe, OURS)
    return Largest(codec["name"].removeprefix("packed_"), codec["density"], int(codec["bits"]), True)


def equal_lists():
    """Sizes with which systems come to about the same accuracy (`bench/run convergence`): those of the recipes."""
    return {GTOPK: Largest("gtop_k", codec_of("gtopk")["density"]), PACKED_GTOPK: packed_of("gtopk-packed"),
            "Ok-Topk": Largest("split_top_k", codec_of("ok-topk")["density"]), "Ok-Topk, packed": packed_of("ok-topk-packed"),
            "DGC": Largest("top_k", codec_of("dgc")["density"], corrected=True)}


def equal_systems():
    split = split_of("gs-sgd-split")
    return (*(lists.system(name) for name, lists in equal_lists().items()), power_sgd(int(codec_of("powersgd")["rank"])),
            at_a_server(sketch_of("sketched-sgd")), by_sketch(PLAIN, sketch_of("gs-sgd")), System(GOAL_SYSTEM, split.overrides(), split.sent))


SAME_SHARE, EQUAL_SET = "1 % each", "recipes' sizes"
SETS = {SAME_SHARE: lambda: SYSTEMS, EQUAL_SET: equal_systems}

# One sketch and one number of entries for the whole model: bytes don't grow with it. Models of one and of nine times as many values.
GLOBAL = "gs-SGD, one sketch for the model"
ENTRIES, COLUMNS, GLOBAL_ROWS, GLOBAL_CANDIDATES = 60_000, 160_000, 3, 2
GLOBAL_PROFILES = ("vgg16_cifar", "vgg_a")
GLOBAL_RANKS = {"smoke": (4,), "quick": (16,), "full": (4, 16, 64, 256)}


def global_system():
    words = {"name": "count_sketch", "global": "true", "entries": ENTRIES, "column_count": COLUMNS, "rows": GLOBAL_ROWS, "candidates": GLOBAL_CANDIDATES}
    def sent(_, ranks):
        return 2 * (ranks - 1) / ranks * WORD * (GLOBAL_ROWS * COLUMNS + GLOBAL_CANDIDATES * ENTRIES)
    return System(GLOBAL, (*(f"{CODEC}{key}={value}" for key, value in words.items()), "exchange.levels.0.collective=halving_doubling"), sent)


def targets(peers_only):
    return [] if peers_only else ["taxon", EXCHANGES, "bench_tcp_stream"]


def model_of(profile):
    """The name that a profile's model has in recipes: that of its file."""
    return os.path.splitext(os.path.basename(profile))[0]


def simulate(session, cluster, ranks, system, steps, profile=PROFILE):
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
        out = os.path.join(folder, "run.json")
        command = [session.program("taxon"), "simulate", RECIPE, "--cluster", os.path.join(ROOT, "clusters", cluster + ".yaml"), "--profile",
                   profile, "--workers", str(ranks + system.servers), "--steps", str(steps), "--json", out,
                   *(word for one in (f"model.name={model_of(profile)}", *system.overrides) for word in ("--set", one))]
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


def measure(session, cluster, ranks, system, profile=PROFILE):
    """The difference of two runs: what the first steps and the setting up take is in neither."""
    short, long = (simulate(session, cluster, ranks, system, steps, profile) for steps in (2 * CYCLE, 3 * CYCLE))
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
LABS = {"smoke": ((2, "1gbit"),), "quick": ((4, "100mbit"),), "full": ((4, "100mbit"), (8, "100mbit"), (4, "1gbit"), (8, "1gbit"))}
LAB_PORT = 29850
NEAR = 0.10  # of the closed form, for seconds
BY_PARTS, RECIPE_SIZES = GOAL_SYSTEM, "gs-SGD, recipe's sizes"
RIVALS = (GTOPK, PACKED_GTOPK, "Ok-Topk", "Ok-Topk, packed", "DGC")  # with the recipes' sizes
# Kernels of parts are others with other numbers of ranks, so those of one rank can't be replayed.
KINDS = {"replayed": ("gs-SGD", "gs-SGD, smaller"), "real": ("gs-SGD", "gs-SGD, smaller", RECIPE_SIZES, BY_PARTS, *RIVALS)}


def by_hand():
    return {"gs-SGD": PLAIN_SIZES, "gs-SGD, smaller": Sketch(0.02, candidates=1, bytes_per_bucket=2, reuse=4),
            RECIPE_SIZES: sketch_of("gs-sgd"), BY_PARTS: split_of("gs-sgd-split"),
            **equal_lists()}


def variant_of(sketch):
    """The level's options as bench/ours/sketches.cc takes them."""
    words = [word.removeprefix(CODEC) for word in sketch.overrides() if word not in CORRECTED]
    return ",".join([*words, "collective=" + ("ring" if isinstance(sketch, Sketch) else "auto")])


def cycle_of(sketch):
    """Exchanges that differ."""
    return sketch.reuse if isinstance(sketch, Sketch) else 1


def exchanges(session, name, commands):
    return Side(name, commands, session.log_folder, [{"TAXON_SECRET": "benchmark"}] * len(commands))


def exchange_command(session, rank, ranks, host, port):
    return [session.program(EXCHANGES), "--rank", str(rank), "--ranks", str(ranks), "--host", host, "--port", str(port), "--job-port", str(port + 1)]


def kernels_alone(session, sketch):
    """Milliseconds of the codec's kernels in one cycle of exchanges, on one core while nothing else works."""
    port = machine.free_ports(2)
    with exchanges(session, "codecs alone", [exchange_command(session, 0, 1, "127.0.0.1", port)]) as side:
        return side.ask(f"run solo {VALUES * WORD} {3 if session.quick() else 7} {cycle_of(sketch)} {variant_of(sketch)}", timeout=600)["detail"]


def measure_exchange(session, side, kind, ranks, sketch, kernels):
    """Seconds and bytes of an exchange, and whether all ranks came to the same."""
    replay = f",replay={kernels}" if kind == "replayed" else ""
    answer = side.ask(f"run {kind} {VALUES * WORD} {3 if session.quick() else 7} {cycle_of(sketch)} {variant_of(sketch)}{replay}", timeout=1800)
    sent, hashes, squares = answer["sums"]
    return statistics.median(answer["seconds"]), sent / ranks, ranks * squares == hashes * hashes


def emulated_row(kind, name, ranks, rate):
    return Row("gs-sgd", f"{name}, {rate}, codecs {kind}", "tcp", ranks, peer="the closed form")


def run_lab(session, ranks, rate, alone):
    sketches = by_hand()
    missing = [(name, kind) for kind, names in KINDS.items() for name in names if not session.rows.has(emulated_row(kind, name, ranks, rate))]
    if not missing:
        return
    with Cluster(ranks, rate) as cluster:
        bandwidth = stream_bandwidth(session, cluster)
        first = cluster.addresses[0]
        commands = [cluster.command(r, exchange_command(session, r, ranks, first, LAB_PORT)) for r in range(ranks)]
        with exchanges(session, "exchanges lab", commands) as side:
            for name, kind in missing:
                sketch, row = sketches[name], emulated_row(kind, name, ranks, rate)
                codec = sum(map(float, alone[name].split(";"))) / 1e3 / cycle_of(sketch)
                row.ours, sent, equal = measure_exchange(session, side, kind, ranks, sketch, alone[name])
                expected = sketch.sent(VALUES, ranks)
                row.unit, row.theirs = "s", codec + expected / bandwidth
                row.bound, row.of_bound, row.ratio = row.theirs, row.theirs / row.ours, row.theirs / row.ours
                row.verified = equal and abs(sent - expected) <= CLOSE * expected
                row.settings = {"network": "emulated", "system": name, "rate": rate, "values": VALUES, "bytes": sent, "closed_form_bytes": expected, "codecs": kind,
                                "codec_ms_alone": 1e3 * codec, "stream_bytes_per_second": round(bandwidth), "error": row.ours / row.theirs - 1}
                if kind == "replayed":
                    row.want("error", at_least=-NEAR, at_most=NEAR)
                session.rows.add(row)


def run_labs(session):
    alone = {name: kernels_alone(session, sketch) for name, sketch in by_hand().items()}
    try:
        for ranks, rate in LABS[session.mode]:
            run_lab(session, ranks, rate, alone)
    except NoCluster as error:
        session.skip("the test cluster", error)


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
    ranks = 2
    while ranks <= most:
        if sketch.sent(count, ranks) < (math.log2(ranks) + 2) * list_bytes(count, sketch.density):
            return ranks
        ranks *= 2
    return None


def case_of(system, sizes, link):
    return f"{system.name}, {sizes}, {link}"


def run_setting(session, link, ranks, sizes):
    systems = SETS[sizes]()
    if all(session.rows.has(Row("gs-sgd", case_of(system, sizes, link), "simulated", ranks, peer=GTOPK)) for system in systems):
        return
    done = {system.name: measure(session, CLUSTERS[link], ranks, system) for system in systems}
    samples = 32 * ranks
    for system in systems:
        seen = done[system.name]
        row = Row("gs-sgd", case_of(system, sizes, link), "simulated", ranks, peer=GTOPK)
        row.ours, row.theirs, row.unit = samples / seen.seconds, samples / done[GTOPK].seconds, "samples/s"
        row.ratio = row.ours / row.theirs
        expected = system.sent(seen.values, ranks)
        row.verified = abs(seen.sent - expected) <= CLOSE * expected
        row.settings = {"system": system.name, "sizes": sizes, "link": link, "step_ms": 1e3 * seen.seconds, "bytes": int(seen.sent),
                        "messages_per_rank": seen.messages, "codec_ms": 1e3 * seen.codec_seconds,
                        "against": {peer: done[peer].seconds / seen.seconds for peer in GOALS}, "values": seen.values,
                        "closed_form_bytes": expected}
        if system.sketch:
            row.settings["faster_than_gtopk_from"] = border(system.sketch, seen.values)
        if not session.rows.has(row):
            session.rows.add(row)


def run_global(session, profile, ranks):
    """Bytes of a model, beside their closed form, which does not know the model."""
    system, link = global_system(), "1 Gbit/s"
    row = Row("gs-sgd", f"{GLOBAL}, {profile}, {link}", "simulated", ranks, peer="the closed form")
    if session.rows.has(row):
        return
    seen = measure(session, CLUSTERS[link], ranks, system, os.path.join(ROOT, "profiles", profile + ".yaml"))
    row.unit, row.ours, row.theirs = "B", seen.sent, system.sent(seen.values, ranks)
    row.verified = abs(row.ours - row.theirs) <= CLOSE * row.theirs
    row.settings = {"model": profile, "values": seen.values, "step_ms": 1e3 * seen.seconds, "messages_per_rank": seen.messages, "codec_ms": 1e3 * seen.codec_seconds}
    session.rows.add(row)


def run(session):
    if session.peers_only:
        return
    for profile in GLOBAL_PROFILES:
        for ranks in GLOBAL_RANKS[session.mode]:
            run_global(session, profile, ranks)
    for link in CLUSTERS:
        for sizes in SETS:
            for ranks in RANKS[session.mode]:
                run_setting(session, link, ranks, sizes)
    run_labs(session)


def table_lines(rows, sizes, link):
    end = f", {sizes}, {link}"
    here = [row for row in rows if row.transport == "simulated" and row.case.endswith(end)]
    ranks = sorted({row.ranks for row in here})
    if not ranks:
        return []
    lines = [f"{link}, {sizes}: step in ms (times {GTOPK}'s throughput), simulated; P = {', '.join(map(str, ranks))}; bytes and messages of a "
             f"rank at the largest:"]
    for name in dict.fromkeys(row.case for row in here):
        mine = {row.ranks: row for row in here if row.case == name}
        cells = "  ".join(f"{mine[p].settings['step_ms']:8.1f} ({mine[p].ratio:.2f})" for p in ranks)
        last = mine[ranks[-1]]
        edge = last.settings.get("faster_than_gtopk_from")
        lines.append(f"  {name.removesuffix(end):28} {cells}  {last.settings['bytes'] / 1e6:8.2f} MB {last.settings['messages_per_rank']:6.1f}"
                     + (f"  wire shorter than {GTOPK}'s from P = {edge}" if edge else ""))
    return lines


def summary(rows):
    lines = [line for link in CLUSTERS for sizes in SETS for line in table_lines(rows, sizes, link)]
    lines += [f"{row.case}, P = {row.ranks}: {row.settings['values'] / 1e6:.1f} M values, {row.ours / 1e6:.3f} MB, {row.settings['messages_per_rank']:.0f} messages"
              for row in rows if row.case.startswith(GLOBAL)]
    return lines + lab_summary(rows)


def claims(rows):
    chosen = [row for row in rows if row.case == f"{GOAL_SYSTEM}, {EQUAL_SET}, 1 Gbit/s" and row.ranks in GOAL_RANKS]
    return [claim("gs-sgd", f"{GOAL_SYSTEM}, P = {row.ranks}: throughput over {peer}'s", [row.settings["against"][peer]], min, at_least=goal)
            for row in chosen for peer, goal in GOALS.items()]
