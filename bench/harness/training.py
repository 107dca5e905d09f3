"""Short training runs of the same model by Taxon, PyTorch DDP and a plain libtorch loop, as figures of one shape."""
import dataclasses
import json
import os
import statistics
import tempfile

from harness import machine
from harness.build import ROOT
from harness.group import run_group
from harness.side import Side

BATCH = 64  # per worker
PARAMETERS = 3241354
RECIPE = os.path.join(ROOT, "bench", "recipes", "cnn.yaml")
DDP = os.path.join(ROOT, "bench", "peers", "ddp.py")
# Where rank 0 listens in the lab; DDP holds its port as long as its group lives.
LAB_PORTS = {"DDP": 29600, "Taxon": 29650}


class WrongModel(Exception):
    pass


@dataclasses.dataclass
class Training:
    """One run. Times in seconds, the median over the steps."""
    workers: int
    step: float
    alone: float = None  # a step's time without communication
    exposed: float = None  # what communication adds to it
    accuracy: float = None
    parameters: int = PARAMETERS
    details: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.parameters != PARAMETERS:
            raise WrongModel(f"the sides train different models: {self.parameters} parameters, not {PARAMETERS}")

    def samples_per_second(self):
        return self.workers * BATCH / self.step


def threads_for(workers):
    return max(1, machine.cores() // workers)


def settled(seconds):
    """The median without the first steps, in which memory is first touched."""
    return statistics.median(seconds[len(seconds) // 5:])


def job_environments(workers, cluster, job):
    """What a launcher tells each worker, on this host or one worker per host of the cluster."""
    host, port = (cluster.addresses[0], LAB_PORTS[job]) if cluster else ("127.0.0.1", machine.free_ports(2))
    return [{"RANK": str(rank), "WORLD_SIZE": str(workers), "LOCAL_RANK": "0" if cluster else str(rank),
             "LOCAL_WORLD_SIZE": "1" if cluster else str(workers), "MASTER_ADDR": host, "MASTER_PORT": str(port),
             "TAXON_SECRET": "benchmark", "GLOO_SOCKET_IFNAME": "eth0" if cluster else "lo", "OMP_NUM_THREADS": str(threads_for(workers))}
            for rank in range(workers)]


def commands_for(workers, cluster, command):
    return [cluster.command(rank, command) if cluster else command for rank in range(workers)]


def run_taxon(session, workers, steps, test_samples, cluster=None, threads=None, overrides=()):
    threads = threads or threads_for(workers)
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
        command = [session.program("taxon"), "train", RECIPE, "--out", out, "--set", f"length.steps={steps}",
                   "--set", f"threads={threads}", "--set", f"data.test_limit={test_samples}", *(word for one in overrides for word in ("--set", one))]
        run_group(f"Taxon {workers}", commands_for(workers, cluster, command), job_environments(workers, cluster, "Taxon"),
                  session.log_folder)
        with open(os.path.join(out, "summary.json")) as file:
            summary = json.load(file)
    kept = ("samples_per_second", "step_ms", "compute_ms", "exposed_communication_ms", "bytes_sent_per_step", "transport")
    return Training(workers, summary["step_ms"]["p50"] / 1e3, summary["compute_ms"] / 1e3,
                    summary["exposed_communication_ms"] / 1e3, summary["test_accuracy"], summary["parameters"],
                    {key: summary[key] for key in kept})


class Ddp:
    """A group of DDP workers that trains a fresh model each time."""

    def __init__(self, session, workers, cluster=None):
        self.workers = workers
        command = [DDP, "--batch", str(BATCH), "--threads", str(threads_for(workers))]
        self.side = Side(f"DDP {workers}{' lab' if cluster else ''}", commands_for(workers, cluster, command), session.log_folder,
                         job_environments(workers, cluster, "DDP"))

    def train(self, steps, alone_steps, test_samples):
        result = self.side.ask(f"train {steps} {alone_steps} {test_samples}", timeout=300)
        step, alone = settled(result["seconds"]), settled(result["alone_seconds"])
        return Training(self.workers, step, alone, step - alone, result.get("test_accuracy"), result["parameters"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.side.stop()


class Plain:
    """Plain libtorch processes that know nothing of each other."""

    def __init__(self, session, processes, threads=1):
        command = [session.program("bench_libtorch_loop"), "--threads", str(threads), "--batch", str(BATCH)]
        env = [{"OMP_NUM_THREADS": str(threads)}]
        self.sides = [Side(f"plain {i}", [command], session.log_folder, env) for i in range(processes)]

    def train(self, steps, at_once=1, test_samples=0):
        """`at_once` of the processes train together; the figure is that of the mean rate."""
        request = f"train {steps} {test_samples}"
        for side in self.sides[:at_once]:
            side.send(request)
        results = [side.receive(request, timeout=300) for side in self.sides[:at_once]]
        step = statistics.harmonic_mean([settled(result["seconds"]) for result in results])
        return Training(at_once, step, accuracy=results[0].get("test_accuracy"), parameters=results[0]["parameters"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in self.sides:
            side.stop()
