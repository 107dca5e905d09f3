"""What Taxon costs where it has nothing to do: an idle rank. What it adds to one worker's step `bench/run torch` shows."""
import os
import time

import collectives
from harness.rows import Row

PACKAGES = collectives.PACKAGES
PATHS = ("src", "bench/overhead.py", "bench/collectives.py", "bench/side", "bench/harness", "bench/ours/collectives.cc",
         "bench/ours/rank.cc", "bench/ours/rank.h")
IDLE = "idle rank"


def targets(peers_only):
    return [] if peers_only else [collectives.TAXON]


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(session):
    """Two ranks, joined and connected, that have just worked and now wait: all their threads together."""
    if session.peers_only or session.rows.has(Row("overhead", IDLE, "shared memory", 2)):
        return
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


def summary(rows):
    return []
