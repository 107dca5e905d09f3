"""What Taxon costs where it has nothing to do: one worker's step against a plain libtorch loop, and an idle rank."""
import os
import statistics
import time

import collectives
from harness import machine, pairs
from harness.rows import Row
from harness.training import BATCH, Plain, run_taxon

PACKAGES = collectives.PACKAGES + ("libopenblas0-openmp", "dataset-fashion-mnist")
STEP, IDLE = "cnn, one worker, threads: {}", "idle rank"
TEST_SAMPLES = 2000
# Sides start from different random weights, so accuracies early in training differ by chance.
ACCURACY_TOLERANCE = 0.04


def targets(peers_only):
    return ["bench_libtorch_loop"] if peers_only else ["bench_libtorch_loop", "taxon", collectives.TAXON]


def run_step(session, threads):
    """Both sides compute with as many threads and see as many samples, so they must have learnt as much."""
    base = {"bench": "overhead", "case": STEP.format(threads), "ranks": 1, "peer": "plain libtorch"}
    if session.rows.has(Row(**base, transport="none")):
        return
    steps, rounds = (100, 9) if session.quick() else (300, 31)
    with Plain(session, 1, threads) as plain:
        plain.train(steps // 2)
        turns = {"plain": lambda: plain.train(steps, test_samples=TEST_SAMPLES)}
        if not session.peers_only:
            turns["Taxon"] = lambda: run_taxon(session, 1, steps, TEST_SAMPLES, threads=threads)
        runs = pairs.take_turns(turns, rounds)
    row = Row(**base, transport="none", unit="ms", theirs=statistics.median(t.step for t in runs["plain"]) * 1e3,
              settings={"batch": BATCH, "threads": threads, "steps": steps, "pairs": rounds})
    if "Taxon" in runs:
        row.ours = statistics.median(t.step for t in runs["Taxon"]) * 1e3
        row.ratio, row.spread = pairs.ratio(False, [t.step for t in runs["Taxon"]], [t.step for t in runs["plain"]])
        row.bound, row.of_bound = row.theirs, row.theirs / row.ours
        learnt = {name: statistics.median(t.accuracy for t in runs[name]) for name in runs}
        row.settings |= {f"accuracy, {name}": round(figure, 4) for name, figure in learnt.items()}
        row.verified = abs(learnt["Taxon"] - learnt["plain"]) <= ACCURACY_TOLERANCE
    session.rows.add(row)


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_idle(session):
    """Two ranks, joined and connected, that have just worked and now wait: all their threads together."""
    seconds = 5 if session.quick() else 30
    with collectives.local_sides(session, 2)["Taxon"]() as side:
        verified = side.ask(f"run allreduce {2**20} 3 20 in_place")["verified"]
        time.sleep(1)
        pids = [process.pid for process in side.processes]
        before = [processor_seconds(pid) for pid in pids]
        time.sleep(seconds)
        shares = [(processor_seconds(pid) - start) / seconds for pid, start in zip(pids, before)]
        verified = side.ask(f"run allreduce {2**20} 3 20 in_place")["verified"] and verified
    session.rows.add(Row("overhead", IDLE, "shared memory", 2, ours=100 * max(shares), unit="% of core", verified=verified,
                         settings={"seconds": seconds, "threads": "all of the rank's"}))


def run(session):
    for threads in sorted({1, machine.cores()}):
        run_step(session, threads)
    if not session.peers_only and not session.rows.has(Row("overhead", IDLE, "shared memory", 2)):
        run_idle(session)


def summary(rows):
    step = [f"{row.case}: {row.ratio:.4g} of a plain loop's speed (at least 0.99)" for row in rows if row.case != IDLE and row.ratio]
    return step + [f"idle rank: {row.ours:.2g} % of a core (under 1)" for row in rows if row.case == IDLE]
