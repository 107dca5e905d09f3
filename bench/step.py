"""Training steps of several workers against PyTorch DistributedDataParallel over Gloo, on one host and in the test cluster. Equal work: the same weights
at the start, the same batches in the same order, the same cores; both sides with both orders of images in memory. The loss of every step must
be the peer's. A program's own loop by taxon::DataParallel does the same beside `taxon train`."""
import functools
import statistics

from harness import equal, pairs
from harness.cluster import Cluster, NoCluster
from harness.rows import Row, claim
from harness.stream import processor_of_bytes, stream_bandwidth
from harness.training import BATCH, FORMATS, PARAMETERS, PLANTS, Ddp, Plain, Weights, Work, planted, run_own_loop, run_taxon, threads_for  # noqa: F401

PACKAGES = ("python3-torch", "python3-numpy", "libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libopenmpi-dev",
            "openmpi-bin", "libgloo-dev", "libucx-dev", "iproute2")
PATHS = ("src", "apps/taxon", "tools/lab", "bench/bounds", "bench/step.py", "bench/harness", "bench/peers", "bench/ours/own_loop.cc", "bench/recipes/cnn.yaml", "include/taxon/data_parallel.h")
LOCAL_WORKERS = 2
LAB_HOSTS, LAB_RATE, LAB_CORES = 4, "1gbit", 0.45
# Beside the recipe's own way in the test cluster, which is all-reduce, whose slices go by priority behind the next forward pass. Sharded: gradients are
# summed at owners, who update their part alone and spread weights (ZeRO-1); as many bytes.
OTHER_WAYS = {"sharded state": ("exchange.levels.0.topology=sharded",), "first in, first out": ("exchange.order=backward",)}
TEST_SAMPLES = {"smoke": 200, "quick": 2000, "full": 10000}
LOCAL_STEPS = {"smoke": (20, 4, 1), "quick": (100, 40, 3), "full": (150, 50, 5)}  # steps, those without communication, turns
LAB_STEPS = {"smoke": (6, 2, 1), "quick": (50, 15, 3), "full": (60, 20, 5)}
BEST = "the better of each"
OWN_LOOP, TRAIN = "own loop", "taxon train"
OWN_LOOP_PEERS = {TRAIN: "Taxon", "PyTorch DDP": "DDP"}  # and whose runs they are
OF_BOUND_LEAST = 0.92  # between hosts
OWN_LOOP_LEAST = 0.98  # of taxon train's samples per second


def targets(peers_only):
    programs = ["bench_libtorch_loop", "bench_tcp_stream"]
    return programs if peers_only else [*programs, "taxon", "bench_own_loop"]


def median_of(trainings, figure):
    return statistics.median(figure(training) for training in trainings)


def rate(training):
    return training.samples_per_second()


def verified(ours, theirs):
    """Every run of ours had the losses of every run of theirs; both are the same in each of their turns."""
    return all(equal.same(one.losses, other.losses) for one in ours for other in theirs)


def facts(ours, theirs):
    return {"worst_loss_difference": max(equal.worst_difference(a.losses, b.losses) for a in ours for b in theirs),
            "accuracy": [median_of(ours, lambda t: t.accuracy), median_of(theirs, lambda t: t.accuracy)]}


def throughput_row(base, case, peer, ours, theirs, bound, peer_rate=rate):
    """`peer_rate`: samples/s of the peer's runs that count."""
    row = Row(**base | {"case": f"{base['case']}, {case}", "unit": "samples/s", "peer": peer, "settings": dict(base["settings"])},
              theirs=median_of(theirs, peer_rate), bound=bound)
    if ours:
        row.ours = median_of(ours, rate)
        row.ratio, row.spread = pairs.ratio(True, list(map(rate, ours)), list(map(peer_rate, theirs)))
        row.of_bound = row.ours / bound
        row.settings["taxon"] = ours[-1].details
    return row


def exposed_row(base, case, ours, theirs, wire_seconds):
    """Communication that compute does not hide, beside the least: what the wire needs less all of the compute."""
    least = max(0.0, wire_seconds - median_of(ours, lambda t: t.alone)) if wire_seconds else None
    ratio, spread = pairs.ratio(False, [max(t.exposed, 1e-6) for t in ours], [max(t.exposed, 1e-6) for t in theirs])
    mine = median_of(ours, lambda t: t.exposed)
    return Row(**base | {"case": f"{base['case']}, {case}, exposed", "unit": "ms", "peer": "PyTorch DDP"}, ours=mine * 1e3,
               theirs=median_of(theirs, lambda t: t.exposed) * 1e3, ratio=ratio, spread=spread, bound=least * 1e3 if least is not None else None,
               of_bound=least / mine if least and mine > 0 else None)


def add_pair(session, base, case, ours, theirs, bound, wire_seconds):
    row = throughput_row(base, case, "PyTorch DDP", ours, theirs, bound)
    if ours:
        row.verified = verified(ours, theirs)
        row.settings |= facts(ours, theirs)
        if case == BEST:
            # On one host compute is the whole step; between hosts communication is what Taxon hides.
            row.want("ratio", at_least=1.4 if wire_seconds else 1)
    session.rows.add(row)
    if ours:
        session.rows.add(exposed_row(base, case, ours, theirs, wire_seconds))


def add_formats(session, base, runs, ours, bound, wire_seconds):
    """`runs`: (side, format) -> its turns. A row for each format, and one for the better format of each side."""
    def side(name):
        return {memory_format: runs[name, memory_format] for memory_format in FORMATS if (name, memory_format) in runs}

    mine, theirs = side(ours), side("DDP")
    for memory_format in FORMATS:
        add_pair(session, base, memory_format, mine.get(memory_format), theirs[memory_format], bound, wire_seconds)
    best = [one and equal.better(one, rate) for one in (mine, theirs)]
    chosen = base | {"settings": base["settings"] | {"formats": best}}
    add_pair(session, chosen, BEST, mine and mine[best[0]], theirs[best[1]], bound, wire_seconds)


def add_own_loop(session, base, runs, bound):
    """Each side by its better format; losses are those of `taxon train` and of DDP."""
    sides = {name: {one: runs[name, one] for one in FORMATS} for name in (OWN_LOOP, "Taxon", "DDP")}
    best = {name: equal.better(found, rate) for name, found in sides.items()}
    ours = sides[OWN_LOOP][best[OWN_LOOP]]
    for peer, name in OWN_LOOP_PEERS.items():
        theirs = sides[name][best[name]]
        filled = throughput_row(base, f"{OWN_LOOP}, {BEST}", peer, ours, theirs, bound)
        filled.verified = all(verified(found, theirs) for found in sides[OWN_LOOP].values())
        filled.settings |= {**facts(ours, theirs), "formats": [best[OWN_LOOP], best[name]],
                            "compute_ms": [median_of(side, lambda t: t.alone) * 1e3 for side in (ours, theirs)],
                            "exposed_ms": [median_of(side, lambda t: t.exposed) * 1e3 for side in (ours, theirs)]}
        session.rows.add(filled.want("ratio", at_least=OWN_LOOP_LEAST) if peer == TRAIN else filled)


def rows_of(session, setting, ways=("",)):
    """(case, peer) of every row that add_formats and add_own_loop make in a setting."""
    kinds = (*FORMATS, BEST)
    if session.peers_only:
        return [(f"{setting}, {kind}", "PyTorch DDP") for kind in kinds]
    pairs_of_rows = [f"{setting}{way}, {kind}" for way in ways for kind in kinds]
    return [(f"{case}{exposed}", "PyTorch DDP") for case in pairs_of_rows for exposed in ("", ", exposed")] + \
        [(f"{setting}, {OWN_LOOP}, {BEST}", peer) for peer in OWN_LOOP_PEERS]


def finished(session, ranks, found):
    return all(session.rows.has(Row("step", case, ranks=ranks, bytes=4 * PARAMETERS, peer=peer)) for case, peer in found)


def run_local(session):
    base = {"bench": "step", "case": "cnn, one host", "transport": "shared memory", "ranks": LOCAL_WORKERS, "bytes": 4 * PARAMETERS,
            "settings": {"batch_per_worker": BATCH, "bound": "as many plain processes at once", "measured": True}}
    twice = f"plain libtorch x {LOCAL_WORKERS}"
    if finished(session, LOCAL_WORKERS, [*rows_of(session, base["case"]), (f"{base['case']}, {BEST}", twice)]):
        return
    steps, plain_steps, rounds = LOCAL_STEPS[session.mode]
    work, short = Work(steps, plain_steps, TEST_SAMPLES[session.mode]), Work(plain_steps, 0, 0)
    with Weights(session) as weights, Ddp(session, LOCAL_WORKERS, weights) as ddp, Plain(session, LOCAL_WORKERS, weights, threads_for(LOCAL_WORKERS)) as plain:
        turns = {}
        for memory_format in FORMATS:
            turns["DDP", memory_format] = functools.partial(ddp.train, work, memory_format)
            turns["plain", memory_format] = functools.partial(plain.train, short, memory_format)
            turns["bound", memory_format] = functools.partial(plain.train, short, memory_format, LOCAL_WORKERS)
            if not session.peers_only:
                turns["Taxon", memory_format] = functools.partial(run_taxon, session, LOCAL_WORKERS, work, memory_format, overrides=planted(session))
                turns[OWN_LOOP, memory_format] = functools.partial(run_own_loop, session, LOCAL_WORKERS, work, memory_format, weights, overrides=planted(session))
        runs = pairs.take_turns(turns, rounds)
    base["settings"] |= {"steps": steps, "pairs": rounds, "rate": work.rate}
    bound = max(median_of(runs["bound", memory_format], rate) for memory_format in FORMATS)
    add_formats(session, base, runs, "Taxon", bound, None)
    if not session.peers_only:
        add_own_loop(session, base, runs, bound)
    plain_runs = {memory_format: runs["plain", memory_format] for memory_format in FORMATS}
    ours = {memory_format: runs.get(("Taxon", memory_format)) for memory_format in FORMATS}
    best = plain_runs[equal.better(plain_runs, rate)]
    row = throughput_row(base, BEST, twice, ours["contiguous"] and ours[equal.better(ours, rate)], best, bound, lambda t: LOCAL_WORKERS * rate(t))
    # What a plain process learns, it learns alone and beside another; Taxon's losses are verified by DDP's.
    row.verified = all(verified(runs["bound", memory_format], plain_runs[memory_format]) for memory_format in FORMATS)
    session.rows.add(row.want("ratio", at_least=0.85) if row.ratio else row)


def run_lab(session):
    base = {"bench": "step", "case": f"cnn, lab {LAB_RATE}", "transport": "tcp", "ranks": LAB_HOSTS, "bytes": 4 * PARAMETERS,
            "settings": {"batch_per_worker": BATCH, "cores_per_host": LAB_CORES, "network": "emulated",
                         "bound": "slower of the link, 2(n-1)/n S/B, and compute"}}
    ways = {"": (), **{f", {way}": overrides for way, overrides in OTHER_WAYS.items()}}
    if finished(session, LAB_HOSTS, rows_of(session, base["case"], ways)):
        return
    steps, alone_steps, rounds = LAB_STEPS[session.mode]
    work = Work(steps, alone_steps, TEST_SAMPLES[session.mode])
    with Weights(session) as weights, Cluster(LAB_HOSTS, LAB_RATE, LAB_CORES) as cluster:
        bandwidth, seconds_of_byte = stream_bandwidth(session, cluster), processor_of_bytes(session, cluster)
        with Ddp(session, LAB_HOSTS, weights, cluster) as ddp:
            turns = {}
            for memory_format in FORMATS:
                turns["DDP", memory_format] = functools.partial(ddp.train, work, memory_format)
                for way, overrides in {} if session.peers_only else ways.items():
                    turns["Taxon" + way, memory_format] = functools.partial(run_taxon, session, LAB_HOSTS, work, memory_format, cluster,
                                                                            overrides=(*overrides, *planted(session)))
                if not session.peers_only:
                    turns[OWN_LOOP, memory_format] = functools.partial(run_own_loop, session, LAB_HOSTS, work, memory_format, weights, cluster,
                                                                       overrides=planted(session))
            runs = pairs.take_turns(turns, rounds)
    sent = 2 * (LAB_HOSTS - 1) / LAB_HOSTS * 4 * PARAMETERS
    wire = sent / bandwidth
    compute = min(median_of(runs["DDP", memory_format], lambda t: t.alone) for memory_format in FORMATS)
    base["settings"] |= {"steps": steps, "pairs": rounds, "rate": work.rate, "stream_bytes_per_second": round(bandwidth),
                         "wire_ms": round(wire * 1e3, 2), "ddp_alone_ms": round(compute * 1e3, 2),
                         # What the bound leaves out: bytes want the processor too, which the host's quota counts.
                         "bytes_on_quota_ms": round(sent * seconds_of_byte / LAB_CORES * 1e3, 2)}
    bound = LAB_HOSTS * BATCH / max(wire, compute)
    for way, overrides in ways.items():
        if session.peers_only and way:
            continue
        chosen = base | {"case": base["case"] + way, "settings": base["settings"] | {"overrides": overrides}}
        add_formats(session, chosen, runs, "Taxon" + way, bound, wire)
    if not session.peers_only:
        add_own_loop(session, base, runs, bound)


def run(session):
    run_local(session)
    try:
        run_lab(session)
    except NoCluster as error:
        session.skip("the test cluster", error)


def claims(rows):
    """What comes first in the next forward pass goes first: that is worth something. All ways are dense, and send as many bytes."""
    shares = [row.of_bound for row in rows if row.transport == "tcp" and row.unit == "samples/s" and row.ours and row.case.endswith(BEST) and OWN_LOOP not in row.case]
    lab = {row.case.partition("lab " + LAB_RATE)[2]: row.ours for row in rows if row.transport == "tcp" and row.unit == "samples/s" and row.ours}
    first, priority = lab.get(f", first in, first out, {BEST}"), lab.get(f", {BEST}")
    return [claim("step", "lab: priority over first in, first out", [priority / first] if first and priority else [], min, at_least=1),
            claim("step", "lab: share of the bound, the best dense way", shares, max, at_least=OF_BOUND_LEAST)]


def summary(rows):
    return []
