"""What Taxon costs where it has nothing to do: one worker's step against a plain libtorch loop, and an idle rank."""
import functools
import os
import statistics
import time

import collectives
from harness import equal, machine, pairs, training
from harness.rows import Row
from harness.training import BATCH, FORMATS, Plain, Weights, Work, planted, run_taxon

PACKAGES = collectives.PACKAGES + ("libopenblas0-openmp", "dataset-fashion-mnist", "python3-numpy")
PATHS = ("src", "apps/taxon", "bench/overhead.py", "bench/collectives.py", "bench/side", "bench/harness", "bench/peers", "bench/ours", "bench/recipes/cnn.yaml")
STEP, IDLE = "cnn, one worker, threads: {}, {}", "idle rank"
BEST = "the better of each"
STEPS = {"smoke": (10, 1), "quick": (100, 5), "full": (300, 21)}  # and turns
TEST_SAMPLES = 2000
PLANTS = {name: overrides for name, overrides in training.PLANTS.items() if name != "no exchange"}  # one worker has nobody to exchange with


def targets(peers_only):
    return ["bench_libtorch_loop"] if peers_only else ["bench_libtorch_loop", "taxon", collectives.TAXON]


def row_of(threads, case):
    return Row("overhead", STEP.format(threads, case), "none", 1, peer="plain libtorch", unit="ms")


def fill(row, ours, theirs, settings):
    row.theirs = statistics.median(t.step for t in theirs) * 1e3
    row.settings = dict(settings)
    if ours:
        row.ours = statistics.median(t.step for t in ours) * 1e3
        row.ratio, row.spread = pairs.ratio(False, [t.step for t in ours], [t.step for t in theirs])
        row.bound, row.of_bound = row.theirs, row.theirs / row.ours
        row.verified = all(equal.same(a.losses, b.losses) for a in ours for b in theirs)
        row.settings |= {"worst_loss_difference": max(equal.worst_difference(a.losses, b.losses) for a in ours for b in theirs),
                         "accuracy": [statistics.median(t.accuracy for t in runs) for runs in (ours, theirs)]}
        row.want("ratio", at_least=0.99)
    return row


def run_step(session, threads):
    """Both sides compute with as many threads on the same cores, from the same weights, on the same batches."""
    cases = (*FORMATS, BEST)
    if all(session.rows.has(row_of(threads, case)) for case in cases):
        return
    steps, rounds = STEPS[session.mode]
    work = Work(steps, 0, TEST_SAMPLES)
    with Weights(session) as weights, Plain(session, 1, weights, threads) as plain:
        plain.train(Work(steps // 2, 0, 0), FORMATS[0])
        turns = {}
        for memory_format in FORMATS:
            turns["plain", memory_format] = functools.partial(plain.train, work, memory_format)
            if not session.peers_only:
                turns["Taxon", memory_format] = functools.partial(run_taxon, session, 1, work, memory_format, threads=threads, overrides=planted(session))
        runs = pairs.take_turns(turns, rounds)
    settings = {"batch": BATCH, "threads": threads, "steps": steps, "pairs": rounds, "rate": work.rate}
    sides = {name: {one: runs[name, one] for one in FORMATS if (name, one) in runs} for name in ("Taxon", "plain")}
    best = [one and equal.better(one, lambda t: 1 / t.step) for one in (sides["Taxon"], sides["plain"])]
    for case in cases:
        ours, theirs = best if case == BEST else (case, case)
        session.rows.add(fill(row_of(threads, case), sides["Taxon"].get(ours), sides["plain"][theirs],
                              settings | ({"formats": best} if case == BEST else {})))


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_idle(session):
    """Two ranks, joined and connected, that have just worked and now wait: all their threads together."""
    seconds = 2 if session.smoke() else 5 if session.quick() else 30
    with collectives.local_sides(session, 2)["Taxon"]() as side:
        verified = side.ask(f"run allreduce {2**20} 3 20 in_place")["verified"]
        time.sleep(1)
        pids = [process.pid for process in side.processes]
        before = [processor_seconds(pid) for pid in pids]
        time.sleep(seconds)
        shares = [(processor_seconds(pid) - start) / seconds for pid, start in zip(pids, before)]
        verified = side.ask(f"run allreduce {2**20} 3 20 in_place")["verified"] and verified
    session.rows.add(Row("overhead", IDLE, "shared memory", 2, ours=100 * max(shares), unit="% of core", verified=verified,
                         settings={"seconds": seconds, "threads": "all of the rank's"}).want("ours", at_most=1))


def run(session):
    for threads in sorted({1, machine.cores()}):
        run_step(session, threads)
    if not session.peers_only and not session.rows.has(Row("overhead", IDLE, "shared memory", 2)):
        run_idle(session)


def summary(rows):
    return []
