"""Training steps of several workers against PyTorch DistributedDataParallel over Gloo, on one host and in the test cluster."""
import functools
import statistics
import sys

from harness import pairs
from harness.cluster import Cluster, NoCluster
from harness.rows import Row
from harness.stream import stream_bandwidth
from harness.training import BATCH, PARAMETERS, Ddp, Plain, run_taxon

PACKAGES = ("python3-torch", "python3-numpy", "libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libopenmpi-dev",
            "openmpi-bin", "libgloo-dev", "libucx-dev", "iproute2")
LOCAL_WORKERS = 2
LAB_HOSTS, LAB_RATE, LAB_CORES = 4, "1gbit", 0.45
# Beside the recipe's own way in the test cluster, which is all-reduce, whose slices go by priority behind the next forward pass. Sharded: gradients are
# summed at owners, who update their part alone and spread weights (ZeRO-1); as many bytes.
OTHER_WAYS = {"sharded state": ("exchange.levels.0.topology=sharded",), "first in, first out": ("exchange.order=backward",)}
TEST_SAMPLES = {"quick": 2000, "full": 10000}
# Sides start from different random weights, so accuracies early in training differ by chance.
ACCURACY_TOLERANCE = {"quick": 0.04, "full": 0.015}


def targets(peers_only):
    programs = ["bench_libtorch_loop", "bench_tcp_stream"]
    return programs if peers_only else [*programs, "taxon"]


def median_of(trainings, figure):
    return statistics.median(figure(training) for training in trainings)


def accuracies(runs):
    return tuple(median_of(runs[name], lambda t: t.accuracy) for name in ("Taxon", "DDP"))


def agrees(session, runs):
    """Both sides learnt as much from the same samples."""
    ours, theirs = accuracies(runs)
    return abs(ours - theirs) <= ACCURACY_TOLERANCE[session.mode]


def accuracy_row(session, base, runs):
    ours, theirs = accuracies(runs)
    return Row(**base | {"case": base["case"] + ", accuracy", "unit": "share", "peer": "PyTorch DDP"}, ours=ours, theirs=theirs,
               ratio=ours / theirs, verified=agrees(session, runs))


def exposed_row(base, runs, wire_seconds):
    """Communication that compute does not hide, beside the least: what the wire needs less all of the compute."""
    ours, theirs = (median_of(runs[name], lambda t: t.exposed) for name in ("Taxon", "DDP"))
    least = max(0.0, wire_seconds - median_of(runs["Taxon"], lambda t: t.alone)) if wire_seconds else None
    ratio, spread = pairs.ratio(False, [max(t.exposed, 1e-6) for t in runs["Taxon"]], [max(t.exposed, 1e-6) for t in runs["DDP"]])
    return Row(**base | {"case": base["case"] + ", exposed", "unit": "ms", "peer": "PyTorch DDP"}, ours=ours * 1e3,
               theirs=theirs * 1e3, ratio=ratio, spread=spread, bound=least * 1e3 if least is not None else None,
               of_bound=least / ours if least and ours > 0 else None)


def throughput_row(session, base, runs, peer, theirs, bound):
    """`theirs`: samples/s of the peer, one per pair."""
    settings = dict(base["settings"])
    if "Taxon" not in runs:
        return Row(**base | {"unit": "samples/s", "peer": peer, "settings": settings}, theirs=statistics.median(theirs), bound=bound)
    ours = [t.samples_per_second() for t in runs["Taxon"]]
    ratio, spread = pairs.ratio(True, ours, theirs)
    settings["taxon"] = runs["Taxon"][-1].details
    return Row(**base | {"unit": "samples/s", "peer": peer, "settings": settings}, ours=statistics.median(ours),
               theirs=statistics.median(theirs), ratio=ratio, spread=spread, bound=bound, of_bound=statistics.median(ours) / bound,
               verified=agrees(session, runs))


def finished(session, base, peers):
    return all(session.rows.has(Row(**base | {"peer": peer})) for peer in peers)


def add_shared_rows(session, base, runs, bound, wire_seconds):
    session.rows.add(throughput_row(session, base, runs, "PyTorch DDP", [t.samples_per_second() for t in runs["DDP"]], bound))
    if "Taxon" in runs:
        session.rows.add(accuracy_row(session, base, runs))
        session.rows.add(exposed_row(base, runs, wire_seconds))


def run_local(session):
    base = {"bench": "step", "case": "cnn, one host", "transport": "shared memory", "ranks": LOCAL_WORKERS, "bytes": 4 * PARAMETERS,
            "settings": {"batch_per_worker": BATCH, "bound": "as many plain processes at once", "measured": True}}
    if finished(session, base, ["PyTorch DDP", "plain libtorch x 2"]):
        return
    steps, plain_steps, rounds = (150, 60, 3) if session.quick() else (900, 200, 7)
    with Ddp(session, LOCAL_WORKERS) as ddp, Plain(session, LOCAL_WORKERS) as plain:
        turns = {"DDP": lambda: ddp.train(steps, plain_steps, TEST_SAMPLES[session.mode]), "plain": lambda: plain.train(plain_steps),
                 "bound": lambda: plain.train(plain_steps, LOCAL_WORKERS)}
        if not session.peers_only:
            turns["Taxon"] = lambda: run_taxon(session, LOCAL_WORKERS, steps, TEST_SAMPLES[session.mode])
        runs = pairs.take_turns(turns, rounds)
    base["settings"] |= {"steps": steps, "pairs": len(runs["DDP"])}
    bound = median_of(runs["bound"], lambda t: t.samples_per_second())
    add_shared_rows(session, base, runs, bound, None)
    twice = [LOCAL_WORKERS * t.samples_per_second() for t in runs["plain"]]
    session.rows.add(throughput_row(session, base, runs, "plain libtorch x 2", twice, bound))


def run_lab(session):
    base = {"bench": "step", "case": f"cnn, lab {LAB_RATE}", "transport": "tcp", "ranks": LAB_HOSTS, "bytes": 4 * PARAMETERS,
            "settings": {"batch_per_worker": BATCH, "cores_per_host": LAB_CORES, "network": "emulated",
                         "bound": "slower of the link, 2(n-1)/n S/B, and compute"}}
    if finished(session, base, ["PyTorch DDP"]):
        return
    steps, alone_steps, rounds = (50, 15, 3) if session.quick() else (300, 60, 7)
    with Cluster(LAB_HOSTS, LAB_RATE, LAB_CORES) as cluster:
        bandwidth = stream_bandwidth(session, cluster)
        with Ddp(session, LAB_HOSTS, cluster) as ddp:
            turns = {"DDP": lambda: ddp.train(steps, alone_steps, TEST_SAMPLES[session.mode])}
            if not session.peers_only:
                for name, overrides in {"Taxon": (), **OTHER_WAYS}.items():
                    turns[name] = functools.partial(run_taxon, session, LAB_HOSTS, steps, TEST_SAMPLES[session.mode], cluster, overrides=overrides)
            runs = pairs.take_turns(turns, rounds)
    wire = 2 * (LAB_HOSTS - 1) / LAB_HOSTS * 4 * PARAMETERS / bandwidth
    compute = median_of(runs["DDP"], lambda t: t.alone)
    base["settings"] |= {"steps": steps, "pairs": len(runs["DDP"]), "stream_bytes_per_second": round(bandwidth),
                         "wire_ms": round(wire * 1e3, 2), "ddp_alone_ms": round(compute * 1e3, 2)}
    bound = LAB_HOSTS * BATCH / max(wire, compute)
    add_shared_rows(session, base, runs, bound, wire)
    for way in OTHER_WAYS:
        if way in runs:
            other = base | {"case": f"{base['case']}, {way}", "settings": base["settings"] | {"overrides": OTHER_WAYS[way]}}
            add_shared_rows(session, other, {"Taxon": runs[way], "DDP": runs["DDP"]}, bound, wire)


def run(session):
    run_local(session)
    try:
        run_lab(session)
    except NoCluster as error:
        print(f"skipped: the test cluster ({error})", file=sys.stderr)


def summary(rows):
    claims = (("one host: over twice a plain libtorch process", "at least 0.85", "shared memory", "plain libtorch x 2"),
              ("one host: over PyTorch DDP", "more than 1", "shared memory", "PyTorch DDP"),
              ("over PyTorch DDP", "at least 1.4, and more than first in, first out", "tcp", "PyTorch DDP"))
    return [f"{what if transport != 'tcp' else f'{row.case}: {what}'}: {row.ratio:.3g} ({wanted})" for what, wanted, transport, peer in claims for row in rows
            if (row.transport, row.peer, row.unit) == (transport, peer, "samples/s") and row.ratio is not None]
