"""How fast the virtual world is: messages per second, what large jobs cost in time and memory, and how far Coarse collectives are from
their steps. No peer; limits instead."""
import json
import os
import statistics
import subprocess

import collectives
from harness import build
from harness.rows import Row, claim
from harness.side import SideFailed

PACKAGES = collectives.PACKAGES  # the build looks for all peers
PATHS = ("src/base", "src/task", "src/net", "src/comm", "src/exchange", "src/sim", "bench/simulator.py", "bench/ours/simulator.cc", "bench/ours/coarse.cc",
         "bench/harness", "clusters")
PROGRAM = "bench_simulator"
RATE = "messages delivered"
# case -> (name, ranks, most seconds, most MiB); None: no limit
LARGE = {
    "vgg-ring-128": ("VGG-A, one ring all-reduce", 128, 5, 2048),
    "vgg-hierarchical-1024": ("VGG-A, hierarchical all-reduce", 1024, 60, None),
    "vgg-coarse-4096": ("VGG-A, hierarchical all-reduce, Coarse", 4096, 60, None),
}
COARSE = "bench_coarse"
ERROR = "Coarse beside its steps"
WORST_ERROR = 5  # per cent, of collectives that are alone
# (cluster, ranks): as many of its hosts as it takes
COARSE_CASES = [("ethernet-1g", 64), ("ethernet-10g", 64), ("aws-p3.16xlarge", 64), ("ethernet-1g", 128), ("ethernet-10g", 128),
                ("infiniband-hdr100", 128), ("ethernet-1g", 256), ("ethernet-10g", 256), ("infiniband-hdr100", 256)]
COARSE_BYTES = [4096, 10**6, 10**8]
# Collectives that are not alone; how far off these are is said, not bounded: docs/simulation.md.
SITUATIONS = ("late", "four", "unequal", "across")
LEAST_RATE = 1e6  # on one core


def targets(peers_only):
    return [PROGRAM, COARSE]


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
    session.rows.add(row.want("ours", at_least=row.bound))


def run_large(session, case, rounds):
    name, ranks, most_seconds, most_mib = LARGE[case]
    row = Row("simulator", name, "virtual", ranks)
    if session.rows.has(row):
        return
    runs = [measure(session, case) for _ in range(rounds)]
    row.bytes = runs[0]["parameter_bytes"]
    row.ours, row.unit, row.bound = statistics.median(r["seconds"] for r in runs), "s", most_seconds
    row.verified = len({(r["messages"], r["events"], r["virtual_seconds"]) for r in runs}) == 1
    row.settings = {"runs": rounds, "messages": runs[0]["messages"], "virtual_seconds": runs[0]["virtual_seconds"],
                    "peak_mib": round(max(r["peak_mib"] for r in runs), 1), "most_mib": most_mib}
    session.rows.add(row.want("ours", at_most=most_seconds))


def errors(session, cluster, ranks, size, situation):
    """Row of the table -> error in per cent of when the last of its uses has ended; and whether everything had an end."""
    path = os.path.join(build.ROOT, "clusters", f"{cluster}.yaml")
    done = subprocess.run([session.program(COARSE), path, str(ranks), str(size), situation], capture_output=True, text=True)
    if done.returncode != 0:
        raise SideFailed(f"{COARSE} {cluster} {ranks} {size} {situation} failed: {done.stderr.strip()}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    complete = bool(lines) and all(min(line["timing"] + line["coarse"]) > 0 for line in lines)
    return {line["row"]: 100 * (max(line["coarse"]) / max(line["timing"]) - 1) for line in lines}, complete


def run_errors(session, cluster, ranks, situation="alone"):
    row = Row("simulator", f"{ERROR}, {situation}: {cluster}", "virtual", ranks)
    if session.rows.has(row):
        return
    seen, complete = {}, True
    for size in COARSE_BYTES:
        found, whole = errors(session, cluster, ranks, size, situation)
        complete = complete and whole
        for name, error in found.items():
            seen[name] = max(seen.get(name, 0), error, key=abs)
    row.settings = {"bytes": COARSE_BYTES, "worst_per_cent": {name: round(error, 2) for name, error in seen.items()}}
    row.ours, row.unit = max(abs(error) for error in seen.values()), "%"
    row.verified = complete
    if situation == "alone":
        row.bound = WORST_ERROR
        row.want("ours", at_most=WORST_ERROR)
    session.rows.add(row)


def run(session):
    if session.peers_only:
        return
    rounds = {"smoke": 2, "quick": 3, "full": 9}[session.mode]
    run_rate(session, rounds)
    for case in list(LARGE)[:1] if session.smoke() else LARGE:
        run_large(session, case, rounds)
    for cluster, ranks in COARSE_CASES[:1] if session.smoke() else COARSE_CASES:
        run_errors(session, cluster, ranks)
    for situation in SITUATIONS[:1] if session.smoke() else SITUATIONS:
        run_errors(session, "infiniband-hdr100" if situation == "across" else "ethernet-1g", 128, situation)


def claims(rows):
    peaks = {row.case: row.settings.get("peak_mib") for row in rows}
    return [claim("simulator", f"{name}: memory", [peaks.get(name)], max, at_most=most_mib, unit="MiB") for name, _, _, most_mib in LARGE.values() if most_mib]


def summary(rows):
    return []
