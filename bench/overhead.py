"""What Taxon costs where it has nothing to do: one worker's step against a plain libtorch loop, and an idle rank."""
import os
import statistics
import time

import collectives
from harness import pairs
from harness.rows import Row
from harness.training import BATCH, Plain, run_taxon

PACKAGES = collectives.PACKAGES + ("libopenblas0-pthread", "dataset-fashion-mnist")
STEP, IDLE = "cnn, one worker", "idle rank"


def targets(peers_only):
    return ["bench_libtorch_loop"] if peers_only else ["bench_libtorch_loop", "taxon", collectives.TAXON]


def run_step(session):
    steps, rounds = (100, 9) if session.quick() else (200, 31)
    with Plain(session, 1) as plain:
        plain.train(steps // 2)
        turns = {"plain": lambda: plain.train(steps)}
        if not session.peers_only:
            turns["Taxon"] = lambda: run_taxon(session, 1, steps, 500)
        runs = pairs.take_turns(turns, rounds)
    row = Row("overhead", STEP, ranks=1, unit="ms", peer="plain libtorch",
              theirs=statistics.median(t.step for t in runs["plain"]) * 1e3,
              settings={"batch": BATCH, "threads": 1, "steps": steps, "pairs": rounds})
    if "Taxon" in runs:
        row.ours = statistics.median(t.step for t in runs["Taxon"]) * 1e3
        row.ratio, row.spread = pairs.ratio(False, [t.step for t in runs["Taxon"]], [t.step for t in runs["plain"]])
        row.transport = runs["Taxon"][-1].details["transport"]
        row.bound, row.of_bound = row.theirs, row.theirs / row.ours
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
    if not session.rows.has(Row("overhead", STEP, None, 1, peer="plain libtorch")):
        run_step(session)
    if not session.peers_only and not session.rows.has(Row("overhead", IDLE, "shared memory", 2)):
        run_idle(session)


def summary(rows):
    step = [f"one worker: {row.ratio:.4g} of a plain loop's speed (at least 0.99)" for row in rows if row.case == STEP and row.ratio]
    return step + [f"idle rank: {row.ours:.2g} % of a core (under 1)" for row in rows if row.case == IDLE]
