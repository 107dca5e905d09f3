"""All-reduce of float32 sums against Open MPI and Gloo, on one host and between the hosts of the test cluster."""
import contextlib
import statistics

from harness import machine, pairs
from harness.cluster import Cluster, NoCluster
from harness.rows import Row, claim
from harness.side import Side

PACKAGES = ("libopenmpi-dev", "openmpi-bin", "libgloo-dev", "libtorch-dev", "libucx-dev", "iproute2")
PATHS = ("src/base", "src/task", "src/net", "src/control", "src/tensor", "src/comm", "src/exchange", "src/launch", "bench/collectives.py",
         "bench/ours/collectives.cc", "bench/ours/rank.cc", "bench/ours/rank.h", "bench/side", "bench/bounds", "bench/peers", "bench/harness", "tools/lab", "tools/lab_relay.cc")
KIB, MIB = 2**10, 2**20
LOCAL_RANKS = (2, 4)
LOCAL_BYTES = tuple(4 * KIB * 4**i for i in range(8))  # 4 KiB to 64 MiB
LAB_HOSTS, LAB_RATE = 4, "1gbit"
LAB_BYTES = tuple(MIB * 4**i for i in range(4))  # 1 MiB to 64 MiB
LONG_HOSTS, LONG_DELAY_MS = 2, 20  # one way
LONG_BYTES = (64 * MIB, 256 * MIB)
LONG_BOUND = 1e9 / 8 / 1e9  # GB/s of LAB_RATE
LAB_PORT = 29500  # hosts of the lab have ports of their own
STREAM_BYTES = 32 * MIB
TAXON = "bench_taxon_collectives"
SECRET = {"TAXON_SECRET": "benchmark"}
# name -> variants that its program knows; the fastest of each case is compared with
PEERS = {"Open MPI": ("in_place", "out_of_place"), "Gloo": ("in_place",)}


PROGRAMS = ["bench_openmpi_collectives", "bench_gloo_collectives", "bench_one_pass_sum", "bench_tcp_stream", "lab_relay"]


def targets(peers_only):
    return PROGRAMS if peers_only else [*PROGRAMS, TAXON]


# ---- sides ---------------------------------------------------------------------------------------------------------


def channel_arguments(rank, ranks, host, port):
    return ["--rank", str(rank), "--ranks", str(ranks), "--host", host, "--port", str(port)]


def open_mpi_command(ranks):
    """Its best setting on one host: shared memory with one copy by the kernel; cores of its own, or yielding."""
    scarce = ranks > machine.cores()
    placement = ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"] if scarce else ["--bind-to", "core"]
    return ["mpirun", "-n", str(ranks), "--allow-run-as-root", "--oversubscribe", *placement, "--mca", "pml", "ob1",
            "--mca", "btl", "vader,self", "--mca", "btl_vader_single_copy_mechanism", "cma"]


def local_sides(session, ranks):
    def side(name, commands):
        return Side(f"{name} {ranks}", commands, session.log_folder, [SECRET] * len(commands))

    def command(program, rank, port):
        return [session.program(program), *channel_arguments(rank, ranks, "127.0.0.1", port)]

    port = machine.free_ports(5)
    sides = {"Open MPI": lambda: side("Open MPI", [[*open_mpi_command(ranks), session.program("bench_openmpi_collectives"),
                                                    "--port", str(port)]]),
             "Gloo": lambda: side("Gloo", [command("bench_gloo_collectives", r, port + 1) for r in range(ranks)]),
             "bound": lambda: side("bound", [[session.program("bench_one_pass_sum"), "--buffers", str(ranks), "--threads",
                                              str(min(ranks, machine.cores()))]])}
    if not session.peers_only:
        job = ["--job-port", str(port + 4)]
        sides["Taxon"] = lambda: side("Taxon", [command(TAXON, r, port + 3) + job for r in range(ranks)])
    return sides


def lab_sides(session, cluster):
    ranks, first = len(cluster.addresses), cluster.addresses[0]

    def side(name, program, port, extra):
        commands = [cluster.command(r, [session.program(program), *channel_arguments(r, ranks, first, port), *extra(r)])
                    for r in range(ranks)]
        return Side(f"{name} lab", commands, session.log_folder, [SECRET] * ranks)

    sides = {"Gloo": lambda: side("Gloo", "bench_gloo_collectives", LAB_PORT, lambda r: ["--address", cluster.addresses[r]]),
             "bound": lambda: side("bound", "bench_tcp_stream", LAB_PORT + 10,
                                   lambda r: ["--next", cluster.addresses[(r + 1) % ranks]])}
    if not session.peers_only:
        sides["Taxon"] = lambda: side("Taxon", TAXON, LAB_PORT + 20, lambda r: ["--job-port", str(LAB_PORT + 30)])
    return sides


# name -> what Taxon's ranks are told of the network between hosts; the first is compared with the others
NETWORKS = {"Taxon's TCP": ["--transport", "tcp"], "UCX's TCP": ["--transport", "ucx-tcp"],
            "Taxon's TCP with TLS": ["--transport", "tcp", "--encryption", "tls"]}


# The same over a long path, beside one plain TCP stream
LONG_NETWORKS = {"Taxon": ["--transport", "tcp"], "one connection": ["--transport", "tcp", "--connections", "1"]}


def network_sides(session, cluster, networks=NETWORKS):
    """The same ranks of Taxon over each network."""
    ranks, first = len(cluster.addresses), cluster.addresses[0]

    def side(name, port, extra):
        commands = [cluster.command(r, [session.program(TAXON), *channel_arguments(r, ranks, first, port), "--job-port", str(port + 5), *extra])
                    for r in range(ranks)]
        return Side(f"{name} lab", commands, session.log_folder, [SECRET] * ranks)

    return {name: lambda name=name, extra=extra, port=LAB_PORT + 40 + 10 * i: side(name, port, extra)
            for i, (name, extra) in enumerate(networks.items())}


# ---- measuring -----------------------------------------------------------------------------------------------------


def bus_factor(ranks):
    """Bytes that each rank must at least send, over the bytes of its buffer: makes bandwidths of any size comparable."""
    return 2 * (ranks - 1) / ranks


def iterations(size, lab):
    if lab:
        return max(1, min(10, 8 * MIB // size))
    # At most 40: in place, 4 ranks multiply the values by 4 each time, and float32 ends at 2^127.
    return max(2, min(40, 16 * MIB // size))


class Case:
    """One size on one set of sides: asks each in turn and turns the answers into rows."""

    def __init__(self, session, sides, size, lab):
        self.session, self.sides, self.size, self.lab = session, sides, size, lab
        self.iterations = iterations(size, lab)
        self.verified = {name: True for name in sides}
        self.variants = {}
        self.details = {}

    def ask(self, name, variant, blocks):
        """Median seconds of one operation."""
        if name == "bound" and self.lab:
            # A plain stream carries other bytes than the collective; its figure is a bandwidth.
            answer = self.sides[name].ask(f"run stream {STREAM_BYTES} 1 1 one_way")
        else:
            answer = self.sides[name].ask(f"run allreduce {self.size} {blocks} {self.iterations} {variant}")
        self.verified[name] = self.verified[name] and answer["verified"]
        self.details[name] = answer.get("detail")
        return statistics.median(answer["seconds"])

    def bandwidth(self, name, seconds):
        """GB/s of bus bandwidth."""
        if name == "bound" and self.lab:
            return STREAM_BYTES / seconds / 1e9
        return bus_factor(self.ranks) * self.size / seconds / 1e9

    def measure(self, ranks, rounds, blocks):
        self.ranks = ranks
        for name in self.sides:  # also warms up
            known = PEERS.get(name, ("in_place",))
            times = {variant: self.ask(name, variant, blocks) for variant in known}
            self.variants[name] = min(times, key=times.get)
        turns = {name: lambda name=name: self.bandwidth(name, self.ask(name, self.variants[name], blocks)) for name in self.sides}
        return pairs.take_turns(turns, rounds)


def add_rows(session, case, sides, label, transport, rounds, blocks):
    figures = case.measure(label["ranks"], rounds, blocks)
    # Of the memory the best seen counts, since other work can only lower it; the stream's first bytes pass the token
    # bucket faster than the link, so its best is no bound.
    bound = statistics.median(figures["bound"]) if case.lab else max(figures["bound"])
    ours = statistics.median(figures["Taxon"]) if "Taxon" in figures else None
    for peer in PEERS:
        if peer not in sides:
            continue
        ratio, spread = pairs.ratio(True, figures["Taxon"], figures[peer]) if ours else (None, None)
        session.rows.add(Row(
            bench="collectives", case=label["case"], transport=transport, ranks=label["ranks"], bytes=case.size, ours=ours,
            unit="GB/s bus", peer=peer, theirs=statistics.median(figures[peer]), ratio=ratio, spread=spread, bound=bound,
            of_bound=ours / bound if ours else None,
            verified=case.verified[peer] and case.verified["bound"] and case.verified.get("Taxon", True),
            settings={"algorithm": case.details.get("Taxon"), "peer_variant": case.variants[peer], "pairs": rounds, "blocks": blocks, "iterations": case.iterations,
                      "theirs_of_bound": round(statistics.median(figures[peer]) / bound, 4), **label["settings"]}))


def run_setting(session, makers, sizes, label, transport, lab):
    def wanted(size):
        return any(not session.rows.has(Row("collectives", label["case"], transport, label["ranks"], size, peer=peer))
                   for peer in PEERS if peer in makers)

    sizes = [size for size in (sizes[::4] if session.smoke() else sizes) if wanted(size)]
    if not sizes:
        return
    with contextlib.ExitStack() as stack:
        sides = {name: stack.enter_context(make()) for name, make in makers.items()}
        for size in sizes:
            large = size >= 16 * MIB
            rounds = 1 if session.smoke() else (3 if large or lab else 5) if session.quick() else (7 if lab else 15)
            blocks = (1 if lab else 2 if large else 5) if session.quick() else (1 if lab else 3 if large else 9)
            add_rows(session, Case(session, sides, size, lab), sides, label, transport, rounds, blocks)


class NetworkCase:
    """One size over each network: bandwidth, and processor time per byte that a rank sends."""

    def __init__(self, sides, size, ranks, blocks):
        self.sides, self.size, self.ranks, self.blocks = sides, size, ranks, blocks
        self.count = iterations(size, lab=True)
        self.verified = {name: True for name in sides}
        self.processor = {name: [] for name in sides}
        self.details = {}

    def ask(self, name):
        """GB/s of bus bandwidth."""
        answer = self.sides[name].ask(f"run allreduce {self.size} {self.blocks} {self.count} in_place")
        self.verified[name] = self.verified[name] and answer["verified"]
        self.details[name] = answer.get("detail")
        moved = bus_factor(self.ranks) * self.size * self.blocks * self.count * self.ranks
        self.processor[name].append(answer["sums"][0] / moved * 1e9)
        return bus_factor(self.ranks) * self.size / statistics.median(answer["seconds"]) / 1e9

    def measure(self, rounds):
        for name in self.sides:  # connects
            self.ask(name)
        self.processor = {name: [] for name in self.sides}
        return pairs.take_turns({name: lambda name=name: self.ask(name) for name in self.sides}, rounds)


def run_networks(session, cluster):
    """Taxon's TCP against UCX's, and what encryption costs: bandwidth and nanoseconds of processors per byte."""
    ranks, own = len(cluster.addresses), next(iter(NETWORKS))
    label = f"networks, lab {cluster.rate}"
    others = [name for name in NETWORKS if name != own]
    sizes = [size for size in (LAB_BYTES[::4] if session.smoke() else LAB_BYTES)
             if not all(session.rows.has(Row("collectives", f"{label}, {what}", "tcp", ranks, size, peer=peer))
                        for what in ("bandwidth", "processor time") for peer in others)]
    if session.peers_only or not sizes:
        return
    with contextlib.ExitStack() as stack:
        sides = {name: stack.enter_context(make()) for name, make in network_sides(session, cluster).items()}
        for size in sizes:
            case = NetworkCase(sides, size, ranks, blocks=1)
            rounds = 1 if session.smoke() else 3 if session.quick() else 7
            bandwidth = case.measure(rounds)
            for peer in others:
                for what, unit, more_is_better, figures in (("bandwidth", "GB/s bus", True, bandwidth),
                                                            ("processor time", "ns per byte", False, case.processor)):
                    ratio, spread = pairs.ratio(more_is_better, figures[own], figures[peer])
                    session.rows.add(Row(
                        bench="collectives", case=f"{label}, {what}", transport="tcp", ranks=ranks, bytes=size, unit=unit,
                        ours=statistics.median(figures[own]), peer=peer, theirs=statistics.median(figures[peer]), ratio=ratio, spread=spread,
                        verified=case.verified[own] and case.verified[peer],
                        settings={"network": "emulated", "ours": case.details[own], "theirs": case.details[peer], "pairs": rounds}))


class LongCase(NetworkCase):
    """One size over a long path, and a plain stream of as many bytes."""

    STREAM = "plain TCP stream"

    def ask(self, name):
        if name != self.STREAM:
            return super().ask(name)
        answer = self.sides[name].ask(f"run stream {self.size} {self.blocks} 1 one_way")
        return self.size / statistics.median(answer["seconds"]) / 1e9


def stream_side(session, cluster):
    ranks, first = len(cluster.addresses), cluster.addresses[0]
    commands = [cluster.command(r, [session.program("bench_tcp_stream"), *channel_arguments(r, ranks, first, LAB_PORT + 10), "--next",
                                    cluster.addresses[(r + 1) % ranks]]) for r in range(ranks)]
    return Side("stream long path", commands, session.log_folder)


def run_long_path(session):
    """Whether a path of 40 ms and 1 Gbit/s is filled, and what one connection reaches there."""
    label = f"long path, lab {LAB_RATE}, {2 * LONG_DELAY_MS} ms"
    own, *others = [*LONG_NETWORKS, LongCase.STREAM]
    sizes = [size for size in (LONG_BYTES[:1] if session.smoke() else LONG_BYTES)
             if not all(session.rows.has(Row("collectives", label, "tcp", LONG_HOSTS, size, peer=peer)) for peer in others)]
    if session.peers_only or not sizes:
        return
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(LONG_HOSTS, LAB_RATE, delay_ms=LONG_DELAY_MS, relay=session.program("lab_relay")))
        makers = {**network_sides(session, cluster, LONG_NETWORKS), LongCase.STREAM: lambda: stream_side(session, cluster)}
        sides = {name: stack.enter_context(make()) for name, make in makers.items()}
        for size in sizes:
            case = LongCase(sides, size, LONG_HOSTS, blocks=1)
            rounds = 1 if session.smoke() else 3 if session.quick() else 7
            figures = case.measure(rounds)
            ours = statistics.median(figures[own])
            for peer in others:
                ratio, spread = pairs.ratio(True, figures[own], figures[peer])
                session.rows.add(Row(
                    bench="collectives", case=label, transport="tcp", ranks=LONG_HOSTS, bytes=size, unit="GB/s bus", ours=ours, peer=peer,
                    theirs=statistics.median(figures[peer]), ratio=ratio, spread=spread, bound=LONG_BOUND, of_bound=ours / LONG_BOUND,
                    verified=case.verified[own] and case.verified[peer],
                    settings={"network": "emulated", "ours": case.details[own], "theirs": case.details.get(peer), "pairs": rounds}))


def run(session):
    for ranks in LOCAL_RANKS:
        label = {"case": "all-reduce, one host", "ranks": ranks,
                 "settings": {"open_mpi": " ".join(open_mpi_command(ranks)[3:]), "bound": "one pass over all ranks' buffers by threads"}}
        run_setting(session, local_sides(session, ranks), LOCAL_BYTES, label, "shared memory", lab=False)
    try:
        with Cluster(LAB_HOSTS, LAB_RATE) as cluster:
            label = {"case": f"all-reduce, lab {LAB_RATE}", "ranks": LAB_HOSTS,
                     "settings": {"network": "emulated", "bound": "one plain TCP stream, one way"}}
            run_setting(session, lab_sides(session, cluster), LAB_BYTES, label, "tcp", lab=True)
            run_networks(session, cluster)
        run_long_path(session)
    except NoCluster as error:
        session.skip("the test cluster", error)


def claims(rows):
    """What the project promises."""
    def of(peer, test, figure="ratio"):
        return [getattr(row, figure) for row in rows if row.peer == peer and test(row)]

    def local(low, high):
        return lambda row: row.transport == "shared memory" and low <= row.bytes <= high

    def lab(row):
        return row.transport == "tcp" and row.bytes >= 4 * MIB

    def network(what):
        return lambda row: row.case.startswith("networks") and row.case.endswith(what)

    return [claim("collectives", "networks: lowest bandwidth over UCX's TCP", of("UCX's TCP", network("bandwidth")), min, at_least=1),
            # A ratio above 1 is less time: 0.7 of theirs.
            claim("collectives", "networks: processor time of UCX's TCP over Taxon's", of("UCX's TCP", network("processor time")), min, at_least=1 / 0.7),
            claim("collectives", "long path, 256 MiB: share of 1 Gbit/s",
                  [row.of_bound for row in rows if row.case.startswith("long path") and row.bytes == LONG_BYTES[-1]], min, at_least=0.9),
            claim("collectives", "one host, from 1 MiB: median over Open MPI", of("Open MPI", local(MIB, 64 * MIB)), statistics.median, at_least=4),
            claim("collectives", "one host, from 1 MiB: lowest over Open MPI", of("Open MPI", local(MIB, 64 * MIB)), min, at_least=3),
            claim("collectives", "one host, below 1 MiB: lowest over Open MPI", of("Open MPI", local(0, MIB - 1)), min, at_least=1),
            claim("collectives", "one host, from 1 MiB: median over Gloo", of("Gloo", local(MIB, 64 * MIB)), statistics.median, at_least=10),
            claim("collectives", "lab, from 4 MiB: lowest share of the bound", of("Gloo", lab, "of_bound"), min, at_least=0.97)]


def summary(rows):
    return []
