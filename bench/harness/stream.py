"""What plain TCP streams reach between hosts of the test cluster while nothing else runs, and what they cost."""
import contextlib
import statistics

from harness import machine
from harness.side import Side

BYTES = 32 * 2**20
PORT = 29700


@contextlib.contextmanager
def streams(session, cluster, hosts):
    """Each of the first so many hosts can send to the next, and the last to the first."""
    addresses = cluster.addresses[:hosts]
    commands = [cluster.command(r, [session.program("bench_tcp_stream"), "--rank", str(r), "--ranks", str(hosts), "--host", addresses[0], "--port",
                                    str(PORT), "--next", addresses[(r + 1) % hosts]]) for r in range(hosts)]
    with Side("stream", commands, session.log_folder) as side:
        yield side


def stream_bandwidth(session, cluster):
    """Bytes per second."""
    with streams(session, cluster, 2) as side:
        answer = side.ask(f"run stream {BYTES} 3 1 one_way")
    return BYTES / statistics.median(answer["seconds"])


def processor_of_bytes(session, cluster):
    """Seconds of a processor, the kernel's work on packets in, for each byte that a host sends while it receives one, all hosts in a ring."""
    hosts = len(cluster.addresses)
    with streams(session, cluster, hosts) as side:
        side.ask(f"run stream {BYTES} 1 1 ring")
        before = machine.used_seconds()
        side.ask(f"run stream {BYTES} 3 1 ring")
        return (machine.used_seconds() - before) / (3 * BYTES * hosts)
