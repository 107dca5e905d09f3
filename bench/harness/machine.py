"""What machine the figures come from, and what it offers."""
import datetime
import os
import platform
import socket
import subprocess
import time


def cores():
    return len(os.sched_getaffinity(0))


def cpu_model():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def describe():
    return {"cores": cores(), "memory_gib": round(memory_gib(), 1), "cpu": cpu_model(), "kernel": platform.release(),
            "load_at_start": round(os.getloadavg()[0], 2)}


def today():
    return datetime.date.today().isoformat()


def processor_ticks():
    """(used, all) ticks of all cores since the start of the machine, and used ones of this process and its children that have ended."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    own = os.times()
    per_second = os.sysconf("SC_CLK_TCK")
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks), per_second * (own.user + own.system + own.children_user + own.children_system)


def others(seconds=1.0):
    """Cores that somebody else keeps busy while this process sleeps so long: what disturbs a measurement."""
    before = processor_ticks()
    time.sleep(seconds)
    used, everything, own = (after - first for after, first in zip(processor_ticks(), before))
    return max(0.0, used - own) / max(1, everything) * os.cpu_count()


class Watch:
    """A `with` block; afterwards `others` says how many cores other programs kept busy on average while it ran. Processes that it starts must have
    ended."""

    def __enter__(self):
        self.before, self.begin = processor_ticks(), time.monotonic()
        return self

    def __exit__(self, *_):
        used, _, own = (after - first for after, first in zip(processor_ticks(), self.before))
        seconds = max(time.monotonic() - self.begin, 1e-3)
        self.others = round(max(0.0, used - own) / os.sysconf("SC_CLK_TCK") / seconds, 3)


def free_ports(count=1):
    """Consecutive ports of this host that nobody listens at now."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        if first + count < 65536 and all(is_free(first + i) for i in range(count)):
            return first


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


# Figures, and what is made from them: written after measuring.
MADE_FROM_FIGURES = (":!bench/results", ":!docs", ":!README.md")


def commit(folder):
    """The commit that is measured; with "-dirty" if tracked files other than figures differ from it. None outside of a repository."""
    def git(*words):
        try:
            return subprocess.run(["git", "-c", "safe.directory=*", "-C", folder, *words], capture_output=True, text=True)
        except FileNotFoundError:
            return subprocess.CompletedProcess(words, 127, "", "there is no git")

    named = git("rev-parse", "--short=10", "HEAD")
    if named.returncode != 0:
        return None
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *MADE_FROM_FIGURES).stdout.strip()
    return named.stdout.strip() + ("-dirty" if changed else "")
