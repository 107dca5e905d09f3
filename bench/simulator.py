"""How fast the virtual world is: messages per second, and what large jobs cost in time and memory. No peer; limits instead."""
import json
import statistics
import subprocess

import collectives
from harness.rows import Row
from harness.side import SideFailed

PACKAGES = collectives.PACKAGES  # the build looks for all peers
PROGRAM = "bench_simulator"
RATE = "messages delivered"
# case -> (name, ranks, most seconds, most MiB); None: no limit
LARGE = {
    "vgg-ring-128": ("VGG-A, one ring all-reduce", 128, 5, 2048),
    "vgg-hierarchical-1024": ("VGG-A, hierarchical all-reduce", 1024, 60, None),
}
LEAST_RATE = 1e6  # on one core


def targets(peers_only):
    return [PROGRAM]


def measure(session, case):
    done = subprocess.run([session.program(PROGRAM), case], capture_output=True, text=True)
    if done.returncode != 0:
        raise SideFailed(f"{PROGRAM} {case} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run_rate(session, rounds):
    row = Row("simulator", RATE, "virtual", 128, 2**17)
    if session.rows.has(row):
        return
    runs = [measure(session, "stream-128") for _ in range(rounds)]
    row.ours, row.unit, row.bound = statistics.median(r["messages"] / r["seconds"] for r in runs) / 1e6, "M/s", LEAST_RATE / 1e6
    row.verified = len({(r["messages"], r["events"], r["virtual_seconds"]) for r in runs}) == 1  # every run is the same run
    row.settings = {"runs": rounds, "events": runs[0]["events"]}
    session.rows.add(row)


def run_large(session, case, rounds):
    name, ranks, most_seconds, most_mib = LARGE[case]
    row = Row("simulator", name, "virtual", ranks)
    if session.rows.has(row):
        return
    runs = [measure(session, case) for _ in range(rounds)]
    row.bytes = runs[0]["parameter_bytes"]
    row.ours, row.unit, row.bound = statistics.median(r["seconds"] for r in runs), "s", most_seconds
    row.verified = len({(r["messages"], r["events"], r["virtual_seconds"]) for r in runs}) == 1
    peak = max(r["peak_mib"] for r in runs)
    row.settings = {"runs": rounds, "messages": runs[0]["messages"], "virtual_seconds": runs[0]["virtual_seconds"],
                    "peak_mib": round(peak, 1), "most_mib": most_mib}
    session.rows.add(row)


def run(session):
    if session.peers_only:
        return
    rounds = 3 if session.quick() else 9
    run_rate(session, rounds)
    for case in LARGE:
        run_large(session, case, rounds)


def summary(rows):
    lines = [f"{row.case}: {row.ours:.3g} million a second on one core (at least {row.bound:.3g})" for row in rows if row.case == RATE]
    for row in rows:
        if row.case == RATE:
            continue
        peak, most = row.settings["peak_mib"], row.settings["most_mib"]
        lines.append(f"{row.case}, {row.ranks} ranks: {row.ours:.3g} s (at most {row.bound:g}), {peak:.4g} MiB"
                     + (f" (at most {most})" if most else ""))
    return lines
