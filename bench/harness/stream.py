"""What a plain TCP stream reaches between two hosts of the test cluster while nothing else runs."""
import statistics

from harness.side import Side

BYTES = 32 * 2**20
PORT = 29700


def stream_bandwidth(session, cluster):
    """Bytes per second."""
    first = cluster.addresses[0]
    commands = [cluster.command(r, [session.program("bench_tcp_stream"), "--rank", str(r), "--ranks", "2", "--host", first, "--port",
                                    str(PORT), "--next", cluster.addresses[(r + 1) % 2]]) for r in range(2)]
    with Side("stream", commands, session.log_folder) as side:
        answer = side.ask(f"run stream {BYTES} 3 1 one_way")
    return BYTES / statistics.median(answer["seconds"])
