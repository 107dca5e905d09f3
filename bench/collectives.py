"""All-reduce of float32 sums against Open MPI and Gloo, on one host and between the hosts of the test cluster."""
import contextlib
import statistics
import sys

from harness import machine, pairs
from harness.cluster import Cluster, NoCluster
from harness.rows import Row
from harness.side import Side

PACKAGES = ("libopenmpi-dev", "openmpi-bin", "libgloo-dev", "libtorch-dev", "libucx-dev", "iproute2")
KIB, MIB = 2**10, 2**20
LOCAL_RANKS = (2, 4)
LOCAL_BYTES = tuple(4 * KIB * 4**i for i in range(8))  # 4 KiB to 64 MiB
LAB_HOSTS, LAB_RATE = 4, "1gbit"
LAB_BYTES = tuple(MIB * 4**i for i in range(4))  # 1 MiB to 64 MiB
LAB_PORT = 29500  # hosts of the lab have ports of their own
STREAM_BYTES = 32 * MIB
TAXON = "bench_taxon_collectives"
SECRET = {"TAXON_SECRET": "benchmark"}
# name -> variants that its program knows; the fastest of each case is compared with
PEERS = {"Open MPI": ("in_place", "out_of_place"), "Gloo": ("in_place",)}


PROGRAMS = ["bench_openmpi_collectives", "bench_gloo_collectives", "bench_one_pass_sum", "bench_tcp_stream"]


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

    sizes = [size for size in sizes if wanted(size)]
    if not sizes:
        return
    with contextlib.ExitStack() as stack:
        sides = {name: stack.enter_context(make()) for name, make in makers.items()}
        for size in sizes:
            large = size >= 16 * MIB
            rounds = (3 if large or lab else 5) if session.quick() else (7 if lab else 15)
            blocks = (1 if lab else 2 if large else 5) if session.quick() else (1 if lab else 3 if large else 9)
            add_rows(session, Case(session, sides, size, lab), sides, label, transport, rounds, blocks)


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
    except NoCluster as error:
        print(f"skipped: the test cluster ({error})", file=sys.stderr)


def summary(rows):
    """What the project promises, beside what was measured."""
    def of(peer, test, figure="ratio"):
        return [getattr(row, figure) for row in rows if row.peer == peer and test(row) and getattr(row, figure) is not None]

    local = lambda low, high: lambda row: row.transport == "shared memory" and low <= row.bytes <= high
    claims = (
        ("one host, from 1 MiB: median over Open MPI", "at least 4", of("Open MPI", local(MIB, 64 * MIB)), statistics.median),
        ("one host, from 1 MiB: lowest over Open MPI", "at least 3", of("Open MPI", local(MIB, 64 * MIB)), min),
        ("one host, below 1 MiB: lowest over Open MPI", "at least 1", of("Open MPI", local(0, MIB - 1)), min),
        ("one host, from 1 MiB: median over Gloo", "at least 10", of("Gloo", local(MIB, 64 * MIB)), statistics.median),
        ("lab, from 4 MiB: lowest share of the bound", "at least 0.97",
         of("Gloo", lambda row: row.transport == "tcp" and row.bytes >= 4 * MIB, "of_bound"), min),
    )
    return [f"{what}: {measure(values):.3g} ({wanted})" for what, wanted, values, measure in claims if values]
