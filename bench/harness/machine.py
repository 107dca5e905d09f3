"""What machine the figures come from, and what it offers."""
import os
import platform
import socket
import subprocess


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


def commit(folder):
    done = subprocess.run(["git", "-C", folder, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None
