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


# What all processes of the machine have used, by their own running times: what ticks find running counts hosts with a quota, which run at the beginning of
# a period, a tenth too high.
ACCOUNTS = (("/sys/fs/cgroup/cpuacct/cpuacct.usage", lambda text: int(text) / 1e9),
            ("/sys/fs/cgroup/cpu.stat", lambda text: int(text.split("usage_usec", 1)[1].split()[0]) / 1e6))


WHOLE = 0.9  # of what ticks say since the start of the machine: an account of less is a container's


def used_seconds():
    """Processor time of the machine since some instant."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    by_ticks = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    for path, seconds in ACCOUNTS:
        try:
            with open(path) as file:
                used = seconds(file.read())
        except (OSError, IndexError, ValueError):
            continue
        if used >= WHOLE * by_ticks:
            return used
    return by_ticks


def own_seconds():
    """Processor time of this process and of its children that have ended."""
    own = os.times()
    return own.user + own.system + own.children_user + own.children_system


def others(seconds=1.0):
    """Cores that somebody else keeps busy while this process sleeps so long: what disturbs a measurement."""
    with Watch() as watch:
        time.sleep(seconds)
    return watch.others


class Watch:
    """A `with` block; afterwards `others` says how many cores other programs kept busy on average while it ran. Processes that it starts must have
    ended."""

    def __enter__(self):
        self.used, self.own, self.begin = used_seconds(), own_seconds(), time.monotonic()
        return self

    def __exit__(self, *_):
        seconds = max(time.monotonic() - self.begin, 1e-3)
        self.others = round(max(0.0, used_seconds() - self.used - (own_seconds() - self.own)) / seconds, 3)


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
