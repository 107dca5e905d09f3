"""Tensors between two processes of one host: Taxon's channels against gRPC, an RPC over the same fabric, and UCX's own test."""
import contextlib
import functools
import os
import statistics
import subprocess
import tempfile

from harness import machine, pairs, two_hosts
from harness.rows import Row, claim
from harness.side import Side, SideFailed

PACKAGES = ("libgrpc++-dev", "libucx-dev", "ucx-utils", "libtorch-dev", "iproute2")
PATHS = ("src/base", "src/task", "src/net", "src/control", "src/tensor", "src/comm", "src/launch", "bench/transport.py", "bench/ours/tensors.cc",
         "bench/ours/rank.cc", "bench/ours/rank.h", "bench/side", "bench/copies", "bench/bounds", "bench/peers", "bench/harness", "tools/lab")
KIB, MIB = 2**10, 2**20
SMOKE_BYTES = (64, MIB)
QUICK_BYTES = (64, 4 * KIB, 64 * KIB, MIB, 8 * MIB, 64 * MIB)
FULL_BYTES = (64, *(4 * KIB * 4**i for i in range(9)))  # 64 B, 4 KiB to 256 MiB
COUNTED_BYTES = MIB  # where copies are counted: large enough that headers do not matter
SECRET = {"TAXON_SECRET": "benchmark"}
# gRPC takes memory for every message and frees it. What glibc gives back to the kernel costs page faults again with the next one. Told to keep
# it, and in one place for all threads, large tensors take half the time and scatter less; whoever runs gRPC must know of that, so it is a
# row of its own beside gRPC as it is.
KEPT = "gRPC, memory kept"
GRPC_MEMORY = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**34), "MALLOC_TOP_PAD_": str(2**26)}
TAXON = "bench_taxon_tensors"
OURS = {"put": "written", "in_place": "in place", "copied": "copied, in place"}
COUNTED = {("Taxon", variant): f"copies, {words}" for variant, words in {**OURS, "dynamic": "copied out"}.items()}
DYNAMIC = {"in_place": "dynamic, in place", "dynamic": "dynamic, copied out"}
LATENCY, UNCONSUMED, LONG_RUN = "latency, half a round trip", "written, not consumed", "a million tensors"
GRPC_SIDES = {"gRPC": {}, KEPT: GRPC_MEMORY}
RPC, PERFTEST, STATIC = "RPC, same fabric", "ucx_perftest", "Taxon, static"
GRPC = ("unary_tcp", "unary_unix", "stream_tcp", "stream_unix")
PROGRAMS = ["bench_grpc_tensors", "bench_fabric_rpc", "bench_tensor_memory", "bench_count_copies", "bench_tcp_stream"]
LAB_RATE, LAB_PORT = "1gbit", 29300
LAB_BYTES = {"smoke": (MIB,), "quick": (64 * KIB, 16 * MIB), "full": (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB)}
LAB_GRPC = ("unary_tcp", "stream_tcp")  # hosts have no path for a socket in common
LAB_OURS = {"put": "written", "dynamic": "copied out"}  # there is no memory in common to read in place
BOUND_OF = {"put": "put", "in_place": "in_place", "copied": "put"}


def targets(peers_only):
    return PROGRAMS if peers_only else [*PROGRAMS, TAXON]


# ---- sides ---------------------------------------------------------------------------------------------------------


def start_sides(session, stack, counting):
    """name -> Side. With `counting`, the processes count what they copy, which slows them down."""
    port = machine.free_ports(8)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-grpc-"))
    preload = {"LD_PRELOAD": session.program("bench_count_copies.so")} if counting else {}

    def pair(name, program, first, extra, memory=None):
        commands = [[session.program(program), "--rank", str(r), "--ranks", "2", "--host", "127.0.0.1", "--port", str(first), *extra]
                    for r in range(2)]
        label = f"{name} counted" if counting else name
        return stack.enter_context(Side(label, commands, session.log_folder, [SECRET | preload | (memory or {})] * 2))

    sides = {name: pair(name, "bench_grpc_tensors", port + 2 * i,
                        ["--grpc-port", str(port + 2 * i + 1), "--socket", os.path.join(folder, f"socket{i}")], memory)
             for i, (name, memory) in enumerate(GRPC_SIDES.items())}
    sides["RPC"] = pair("RPC", "bench_fabric_rpc", port + 4, ["--job-port", str(port + 5)])
    if not session.peers_only:
        sides["Taxon"] = pair("Taxon", TAXON, port + 6, ["--job-port", str(port + 7)])
    if not counting:
        sides["bound"] = stack.enter_context(Side("memory", [[session.program("bench_tensor_memory")]], session.log_folder))
    return sides


def iterations(size, seconds_each):
    """About a twentieth of a second, at least two."""
    return max(2, min(20000, int(0.05 / seconds_each), 512 * MIB // size))


class Case:
    """One size: asks the sides in turn."""

    def __init__(self, session, sides, size, blocks):
        self.sides, self.size, self.blocks = sides, size, 1 if session.smoke() else blocks
        self.most = 20 if session.smoke() else 20000
        self.count = {}
        self.verified = {}
        self.sums = {}
        self.details = {}

    def ask(self, name, variant):
        """Median seconds of a transfer."""
        key = (name, variant)
        if key not in self.count:
            guess = max(2e-6, self.size / 2e8) if name in GRPC_SIDES else max(1e-6, self.size / 5e9)
            self.count[key] = min(self.most, iterations(self.size, guess))
        answer = self.sides[name].ask(f"run tensor {self.size} {self.blocks} {self.count[key]} {variant}")
        self.verified[key] = self.verified.get(key, True) and answer["verified"]
        moved = self.size * self.blocks * self.count[key]
        self.sums[key] = [figure / moved for figure in answer.get("sums", [])]
        self.details[key] = answer.get("detail")
        return statistics.median(answer["seconds"])

    def rate(self, name, variant):
        return self.size / self.ask(name, variant) / 1e9

    def cpu_per_gb(self, key):
        """CPU seconds of both processes for 10^9 bytes."""
        return round(self.sums[key][0] * 1e9, 4) if key in self.sums and self.sums[key] else None


# ---- measuring -----------------------------------------------------------------------------------------------------


def measure_size(session, sides, size, copies):
    large = size >= 64 * MIB
    rounds = 1 if session.smoke() else (3 if session.quick() else 7) if not large else (2 if session.quick() else 3)
    case = Case(session, sides, size, blocks=2 if large else 3)
    first = {name: {variant: case.rate(name, variant) for variant in GRPC} for name in GRPC_SIDES}  # also warms up
    best = {name: (name, max(forms, key=forms.get)) for name, forms in first.items()}
    turns = {key: None for key in best.values()} | {("RPC", "ring"): None, ("bound", "put"): None, ("bound", "in_place"): None}
    if "Taxon" in sides:
        turns |= {("Taxon", variant): None for variant in OURS}
    figures = pairs.take_turns({key: lambda key=key: case.rate(*key) for key in turns}, rounds)
    for variant, words in OURS.items() if "Taxon" in sides else [(None, "peers alone")]:
        ours = ("Taxon", variant)
        bound = max(figures[("bound", BOUND_OF[variant])]) if variant else None
        rate = statistics.median(figures[ours]) if variant else None
        for peer, key in (*best.items(), (RPC, ("RPC", "ring"))):
            ratio, spread = pairs.ratio(True, figures[ours], figures[key]) if variant else (None, None)
            session.rows.add(Row(
                bench="transport", case=f"tensor, {words}", transport="shared memory", ranks=2, bytes=size, ours=rate, unit="GB/s",
                peer=peer, theirs=statistics.median(figures[key]), ratio=ratio, spread=spread, bound=bound,
                of_bound=rate / bound if rate else None, verified=all(case.verified.get(k, True) for k in (ours, key)),
                settings={"peer_variant": key[1], "path": case.details.get(ours), "rounds": rounds, "iterations": case.count.get(ours),
                          "cpu_s_per_gb": case.cpu_per_gb(ours), "theirs_cpu_s_per_gb": case.cpu_per_gb(key),
                          "copies": copies.get(ours), "theirs_copies": copies.get(key),
                          "grpc_all": {name: round(value, 4) for name, value in first[peer].items()} if peer in first else None}))


def count_copies(session):
    """(side, variant) -> bytes copied over bytes moved, in user space and by the kernel, counted by instrumentation."""
    copies = {}
    with contextlib.ExitStack() as stack:
        sides = start_sides(session, stack, counting=True)
        keys = [("gRPC", variant) for variant in GRPC] + [("RPC", "ring")]
        if "Taxon" in sides:
            keys += COUNTED
        for key in keys:
            case = Case(session, sides, COUNTED_BYTES, blocks=1)
            case.count[key] = 10
            case.ask(*key)
            _, user, kernel = case.sums[key]
            copies[key] = {"user": round(user, 2), "kernel": round(kernel, 2)}
    return copies


def report_copies(session, copies):
    for key, counted in copies.items():
        total = counted["user"] + counted["kernel"]
        mine = key in COUNTED
        session.rows.add(Row(bench="transport", case=COUNTED.get(key, "copies"), transport="shared memory", ranks=2, bytes=COUNTED_BYTES,
                             ours=total if mine else None, unit="copies", peer=None if mine else f"{key[0]} {key[1]}",
                             theirs=None if mine else total, settings=counted))


def measure_dynamic(size, session, sides):
    """Dynamic allocation beside static placement."""
    case = Case(session, sides, size, blocks=3)
    turns = {variant: lambda variant=variant: case.rate("Taxon", variant) for variant in (*DYNAMIC, "put")}
    figures = pairs.take_turns(turns, 1 if session.smoke() else 3 if session.quick() else 7)
    for variant, words in DYNAMIC.items():
        ratio, spread = pairs.ratio(True, figures[variant], figures["put"])
        session.rows.add(Row(bench="transport", case=words, transport="shared memory", ranks=2, bytes=size,
                             ours=statistics.median(figures[variant]), unit="GB/s", peer=STATIC, ratio=ratio, spread=spread,
                             theirs=statistics.median(figures["put"]), verified=all(case.verified.values())))


# ---- between hosts -------------------------------------------------------------------------------------------------


def lab_sides(session, stack, cluster):
    def pair(name, program, port, extra, memory=None):
        return two_hosts.pair(session, stack, cluster, name, program, port, extra, SECRET | (memory or {}))

    sides = {KEPT: pair("gRPC", "bench_grpc_tensors", LAB_PORT, ["--grpc-host", cluster.addresses[1], "--grpc-port", str(LAB_PORT + 1)], GRPC_MEMORY),
             "RPC": pair("RPC", "bench_fabric_rpc", LAB_PORT + 2, ["--job-port", str(LAB_PORT + 3)])}
    if not session.peers_only:
        sides["Taxon"] = pair("Taxon", TAXON, LAB_PORT + 4, ["--job-port", str(LAB_PORT + 5)])
    return sides


def measure_lab_size(session, sides, size, bandwidth):
    rounds, blocks = {"smoke": (1, 1), "quick": (3, 2), "full": (7, 3)}[session.mode]
    case = Case(session, sides, size, blocks)
    ways = [("Taxon", way) for way in LAB_OURS if "Taxon" in sides]
    peers = {KEPT: [(KEPT, form) for form in LAB_GRPC], RPC: [("RPC", "ring")]}
    for key in [*ways, *(key for forms in peers.values() for key in forms)]:
        case.count[key] = max(2, min(200, int(0.3 * bandwidth / size)))
    figures = pairs.take_turns({key: lambda key=key: case.rate(*key) for key in [*ways, *sum(peers.values(), [])]}, rounds)
    for peer, forms in peers.items():
        key = max(forms, key=lambda form: statistics.median(figures[form]))
        for ours in ways or [None]:
            row = lab_row(ours[1] if ours else None, size, peer)
            row.theirs, row.bound = statistics.median(figures[key]), bandwidth / 1e9
            row.verified = case.verified[key] and (not ours or case.verified[ours])
            row.settings = {"network": "emulated", "rate": LAB_RATE, "peer_variant": key[1], "rounds": rounds, "path": case.details.get(ours)}
            if ours:
                row.ours = statistics.median(figures[ours])
                row.ratio, row.spread = pairs.ratio(True, figures[ours], figures[key])
                row.of_bound = row.ours / row.bound
            if not session.rows.has(row):
                session.rows.add(row)


def lab_row(way, size, peer):
    return Row("transport", f"tensor, 2 hosts at {LAB_RATE}, {LAB_OURS.get(way, 'peers alone')}", transport="tcp", ranks=2, bytes=size, unit="GB/s", peer=peer)


def measure_lab(session):
    ways = [None] if session.peers_only else LAB_OURS
    sizes = [size for size in LAB_BYTES[session.mode] if not all(session.rows.has(lab_row(way, size, RPC)) for way in ways)]
    two_hosts.measure_between(session, LAB_RATE, sizes, lab_sides, measure_lab_size)


# ---- UCX's own test ------------------------------------------------------------------------------------------------


def perftest(test, size, count):
    """The last line of `ucx_perftest`: (microseconds a message, MB/s)."""
    port = str(machine.free_ports(1))
    settings = {**os.environ, "UCX_TLS": "sysv,self"}
    common = ["ucx_perftest", "-t", test, "-s", str(size), "-n", str(count), "-p", port, "-f"]
    server = subprocess.Popen(common[:1] + ["-p", port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=settings)
    try:
        done = None
        for _ in range(50):  # until the server listens
            done = subprocess.run([common[0], "127.0.0.1", *common[1:]], capture_output=True, text=True, env=settings, timeout=120)
            if done.returncode == 0:
                break
            try:
                server.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            break
        if done.returncode != 0:
            raise SideFailed(f"ucx_perftest {test}: {done.stderr[-500:]}")
        words = done.stdout.strip().splitlines()[-1].split()
        figures = [float(word) for word in words if word.replace(".", "", 1).isdigit()]
        return figures[-5], figures[-3]  # of: [count, percentile,] latency (average, overall), MB/s (average, overall), messages/s
    finally:
        server.kill()
        server.wait()


def measure_latency(session, sides):
    case = Case(session, sides, 64, blocks=5)
    case.count[("Taxon", "pingpong")] = case.most
    # Each figure is half a round trip; ours carries the sequence number and the credit.
    turns = {"ours": lambda: case.ask("Taxon", "pingpong") * 1e6, "theirs": lambda: perftest("ucp_put_lat", 64, 10 * case.most)[0]}
    add_perftest_row(session, case, turns, LATENCY, "us", False)


def measure_unconsumed(size, session, sides):
    case = Case(session, sides, size, blocks=3)
    turns = {"ours": lambda: case.rate("Taxon", "written"),
             "theirs": lambda: perftest("ucp_put_bw", size, max(20, (1 if session.smoke() else 2048) * MIB // size))[1] * 1.048576e-3}
    add_perftest_row(session, case, turns, UNCONSUMED, "GB/s", True)


def add_perftest_row(session, case, turns, words, unit, better_when_large):
    figures = pairs.take_turns(turns, 1 if session.smoke() else 3 if session.quick() else 7)
    ratio, spread = pairs.ratio(better_when_large, figures["ours"], figures["theirs"])
    session.rows.add(Row(bench="transport", case=words, transport="shared memory", ranks=2, bytes=case.size,
                         ours=statistics.median(figures["ours"]), unit=unit, peer=PERFTEST, ratio=ratio, spread=spread,
                         theirs=statistics.median(figures["theirs"]), verified=all(case.verified.values())))


# ---- a long run ----------------------------------------------------------------------------------------------------


def measure_long_run(session, sides):
    """A million tensors of 64 bytes, every one verified, a sender that is limited by credits alone."""
    count = 2000 if session.smoke() else 10**6
    answer = sides["Taxon"].ask(f"run tensor 64 1 {count} put", timeout=300)
    session.rows.add(Row(bench="transport", case=LONG_RUN, transport="shared memory", ranks=2, bytes=64,
                         ours=statistics.median(answer["seconds"]) * 1e6, unit="us", verified=answer["verified"]))


def run(session):
    run_local(session)
    measure_lab(session)


def is_missing(session, cases, size, peer=None):
    """Whether one of the rows is to be measured."""
    return not all(session.rows.has(Row("transport", case, ranks=2, bytes=size, peer=peer)) for case in cases)


def missing_parts(session):
    """Of what has rows of its own beside those of sizes: functions of the session and its sides."""
    dynamic, unconsumed = ((MIB,), (MIB,)) if session.smoke() else ((MIB, 16 * MIB), (MIB, 64 * MIB))
    parts = [*((DYNAMIC.values(), size, STATIC, functools.partial(measure_dynamic, size)) for size in dynamic), ([LATENCY], 64, PERFTEST, measure_latency),
             *(([UNCONSUMED], size, PERFTEST, functools.partial(measure_unconsumed, size)) for size in unconsumed), ([LONG_RUN], 64, None, measure_long_run)]
    return [measure for cases, size, peer, measure in parts if is_missing(session, cases, size, peer)]


def run_local(session):
    ways = [f"tensor, {words}" for words in (["peers alone"] if session.peers_only else OURS.values())]
    sizes = [size for size in {"smoke": SMOKE_BYTES, "quick": QUICK_BYTES, "full": FULL_BYTES}[session.mode] if is_missing(session, ways, size, RPC)]
    parts = [] if session.peers_only else missing_parts(session)
    counted = {"RPC ring": ["copies"], None: [] if session.peers_only else COUNTED.values()}
    copies = {}
    if sizes or any(is_missing(session, cases, COUNTED_BYTES, peer) for peer, cases in counted.items()):  # rows of sizes say them, too
        copies = count_copies(session)
        report_copies(session, copies)
    if not sizes and not parts:
        return
    with contextlib.ExitStack() as stack:
        sides = start_sides(session, stack, counting=False)
        for size in sizes:
            measure_size(session, sides, size, copies)
        for measure in parts:
            measure(session, sides)


def claims(rows):
    """What the project promises."""
    def ratios(case, peer, test=lambda row: True):
        return [row.ratio for row in rows if row.case == case and row.peer == peer and test(row)]

    def from_4k(row):
        return row.bytes >= 4 * KIB

    def goal(what, values, measure, at_least):
        return claim("transport", what, values, measure, at_least=at_least)

    put, in_place = f"tensor, {OURS['put']}", f"tensor, {OURS['in_place']}"
    return [goal("written, from 4 KiB: lowest over gRPC", ratios(put, "gRPC", from_4k), min, 10),
            goal("read in place: best over gRPC", ratios(in_place, "gRPC"), max, 25),
            goal("the better of both: best over the RPC of the same fabric",
                 ratios(in_place, RPC) + ratios(put, RPC), max, 2.7),
            goal("dynamic over static, from 1 MiB: lowest", ratios(DYNAMIC["in_place"], STATIC), min, 0.9),
            goal("64 B: ucx_perftest's latency over ours", ratios(LATENCY, PERFTEST), min, 0.34),
            goal("large: ours over ucx_perftest's bandwidth", ratios(UNCONSUMED, PERFTEST), min, 0.9)]


def summary(rows):
    return []
