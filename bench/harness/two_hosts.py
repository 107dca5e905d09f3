"""Pairs of processes on two hosts of the test cluster."""
import contextlib

from harness.cluster import Cluster, NoCluster
from harness.side import Side
from harness.stream import stream_bandwidth


def pair(session, stack, cluster, name, program, port, extra, environment):
    """A side of one rank a host, which lives as long as `stack`."""
    commands = [cluster.command(r, [session.program(program), "--rank", str(r), "--ranks", "2", "--host", cluster.addresses[0], "--port", str(port), *extra])
                for r in range(2)]
    return stack.enter_context(Side(f"{name} lab", commands, session.log_folder, [environment] * 2))


def measure_between(session, rate, missing, start, measure):
    """measure(session, sides, one, bandwidth) for each of `missing`, with the sides of start(session, stack, cluster) and the bytes per second of a plain
    stream. Where there is no test cluster they are skipped, and said to be."""
    if not missing:
        return
    try:
        with Cluster(2, rate) as cluster:
            bandwidth = stream_bandwidth(session, cluster)
            with contextlib.ExitStack() as stack:
                sides = start(session, stack, cluster)
                for one in missing:
                    measure(session, sides, one, bandwidth)
    except NoCluster as error:
        session.skip("the test cluster", error)
