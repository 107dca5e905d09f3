"""Short training runs of the same model by Taxon, PyTorch DDP and a plain libtorch loop, as figures of one shape."""
import dataclasses
import json
import os
import statistics
import subprocess
import tempfile

from harness import equal, machine, texts
from harness.build import ROOT
from harness.group import run_group
from harness.side import Side

SEED, EPOCHS = 1, 3  # that sides train on at most
RECIPES = os.path.join(ROOT, "bench", "recipes")
RECIPE = os.path.join(RECIPES, "cnn.yaml")
FORMATS = ("contiguous", "channels_last")  # of images in memory: each side in both
FASHION_MNIST = "/usr/share/datasets/fashion-mnist"


@dataclasses.dataclass(frozen=True)
class Lesson:
    """What a model is trained on. `samples`: of the training set, given its folder; `prepared`: (session) -> that folder."""
    parameters: int
    recipe: str = RECIPE
    batch: int = 64  # of a worker
    formats: tuple = FORMATS
    prepared: object = lambda session: FASHION_MNIST
    samples: object = lambda folder: 60000
    is_tested: bool = True  # by the share of right answers
    rate: float = 0.001  # of learning, in torch: see Work


LESSONS = {
    "cnn": Lesson(3241354),
    "resnet18": Lesson(11172810, rate=0.0002),  # whose batch norms let rounding grow fastest
    "gpt": Lesson(842496, os.path.join(RECIPES, "gpt.yaml"), 16, FORMATS[:1], texts.bible, lambda folder: texts.windows(folder, 128), False),
}
BATCH, PARAMETERS = LESSONS["cnn"].batch, LESSONS["cnn"].parameters
PEERS = os.path.join(ROOT, "bench", "peers")
DDP = os.path.join(PEERS, "ddp.py")
TORCH_LOOP = os.path.join(PEERS, "torch_loop.py")
ORDER = os.path.join(PEERS, "order.py")
# Where rank 0 listens in the lab; DDP holds its port as long as its group lives.
LAB_PORTS = {"DDP": 29600, "Taxon": 29650}


class WrongModel(Exception):
    pass


class WrongThreads(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Work:
    """What every side does: from the same weights, with the same batches in the same order. `rate` is so small that rounding, which no two
    orders of summation share, has not grown beyond the tolerance at the end; a step takes as long at any rate."""
    steps: int
    alone_steps: int  # without communication
    test_samples: int
    rate: float = 0.001
    model: str = "cnn"

    def lesson(self):
        return LESSONS[self.model]


@dataclasses.dataclass
class Training:
    """One run. Times in seconds, the median over the steps."""
    workers: int
    step: float
    alone: float = None  # a step's time without communication
    exposed: float = None  # what communication adds to it
    losses: tuple = ()  # of each step
    accuracy: float = None
    parameters: int = PARAMETERS
    details: dict = dataclasses.field(default_factory=dict)
    model: str = "cnn"

    def __post_init__(self):
        wanted = LESSONS[self.model].parameters
        if self.parameters != wanted:
            raise WrongModel(f"the sides train different models: {self.parameters} parameters, not the {self.model}'s {wanted}")

    def samples_per_second(self):
        return self.workers * LESSONS[self.model].batch / self.step


def accuracy_of(trainings):
    """The median; None where nobody counts right answers."""
    known = [training.accuracy for training in trainings if training.accuracy is not None]
    return statistics.median(known) if known else None


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
             "TAXON_SECRET": "benchmark", "GLOO_SOCKET_IFNAME": "eth0" if cluster else "lo", "OMP_NUM_THREADS": str(threads_for(workers)), **equal.HEAP}
            for rank in range(workers)]


def commands_for(workers, cluster, command):
    """Hosts of the cluster have quotas; workers of one host have cores of their own."""
    return [cluster.command(rank, command) for rank in range(workers)] if cluster else equal.bound_workers(workers, command)


class Weights:
    """A safetensors file with the weights that Taxon begins with: those after one step at rate 0. For the peers, as long as the `with` block lives."""

    def __init__(self, session, model="cnn", seed=SEED):
        self.session, self.model, self.seed = session, model, seed
        self.folder = tempfile.TemporaryDirectory(prefix="taxon-bench-")
        self.path = ""

    def __enter__(self):
        if not self.session.peers_only:
            lesson = LESSONS[self.model]
            sets = (f"seed={self.seed}", f"model.name={self.model}", f"data.path={lesson.prepared(self.session)}", "length.steps=1", "learning_rate.base=0",
                    "data.test_limit=1", "threads=1", "report.tensorboard=false", "checkpoint.every_epochs=0")
            command = [self.session.program("taxon"), "train", lesson.recipe, "--out", self.folder.name, "--overwrite", *(word for one in sets for word in ("--set", one))]
            run_group("weights", [command], job_environments(1, None, "Taxon"), self.session.log_folder)
            self.path = os.path.join(self.folder.name, "model.safetensors")
        return self.path

    def __exit__(self, *_):
        self.folder.cleanup()


def settings_of(session, workers, work, memory_format, threads=None):
    """Taxon's side of the work, as overrides of its recipe."""
    return [f"length.steps={work.steps}", f"threads={threads or threads_for(workers)}", f"data.test_limit={work.test_samples}", f"learning_rate.base={work.rate}",
            f"model.name={work.model}", f"model.memory_format={memory_format}", f"data.path={work.lesson().prepared(session)}"]


def train_taxon(session, workers, work, memory_format, overrides, cluster=None, threads=None, member=None):
    """Its summary, and of every step what metrics.jsonl says. A `member` of slices enters after its first step."""
    sets = [*settings_of(session, workers, work, memory_format, threads), "report.metrics_steps=1", "report.tensorboard=false", *overrides]
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
        command = [session.program("taxon"), "train", work.lesson().recipe, "--out", out, *(word for one in sets for word in ("--set", one))]
        metrics = os.path.join(out, "metrics.jsonl")

        def enter(processes):
            if os.path.exists(metrics) and os.path.getsize(metrics):
                member.enter(processes)

        run_group(f"Taxon {workers} {memory_format}", commands_for(workers, cluster, command), job_environments(workers, cluster, "Taxon"), session.log_folder,
                  timeout=1800 if member else 300, watch=enter if member else None)
        with open(os.path.join(out, "summary.json")) as file:
            summary = json.load(file)
        with open(metrics) as file:
            return summary, [line for line in map(json.loads, file) if "loss/train" in line]


def run_taxon(session, workers, work, memory_format, cluster=None, threads=None, overrides=(), member=None):
    summary, steps = train_taxon(session, workers, work, memory_format, overrides, cluster, threads, member)
    seconds = [one["time/step_ms"] / 1e3 for one in steps]
    if member:
        member.took(seconds, [one["wall_time"] for one in steps])
    kept = ("samples_per_second", "step_ms", "compute_ms", "exposed_communication_ms", "bytes_sent_per_step", "transport")
    return Training(workers, settled(seconds), summary["compute_ms"] / 1e3, summary["exposed_communication_ms"] / 1e3,
                    tuple(one["loss/train"] for one in steps), summary.get("test_accuracy"), summary["parameters"],
                    {key: summary[key] for key in kept}, work.model)


def run_own_loop(session, workers, work, memory_format, weights, cluster=None, overrides=()):
    """A program's own loop by taxon::DataParallel (bench/ours/own_loop.cc)."""
    sets = [*settings_of(session, workers, work, memory_format), *overrides]
    environments = [{**one, "WEIGHTS": weights} for one in job_environments(workers, cluster, "Taxon")]
    answer = run_group(f"own loop {workers}", commands_for(workers, cluster, [session.program("bench_own_loop"), work.lesson().recipe, *sets]), environments,
                       session.log_folder)
    result = json.loads(next(line for line in answer.splitlines() if line.startswith("{")))
    kept = ("bytes_sent_per_step", "copies_per_step")
    return Training(workers, settled(result["seconds"]), settled(result["compute_seconds"]), settled(result["exposed_seconds"]), tuple(result["losses"]),
                    result.get("test_accuracy"), result["parameters"], {key: result[key] for key in kept}, work.model)


class Ddp:
    """A group of DDP workers that trains a fresh model each time."""

    def __init__(self, session, workers, weights="", cluster=None, threads=None):
        self.workers, self.weights = workers, weights
        command = [DDP, "--threads", str(threads or threads_for(workers))]
        self.side = Side(f"DDP {workers}{' lab' if cluster else ''}", commands_for(workers, cluster, command), session.log_folder,
                         job_environments(workers, cluster, "DDP"))

    def train(self, work, memory_format):
        options = {"steps": work.steps, "alone_steps": work.alone_steps, "test_samples": work.test_samples, "lr": work.rate, "batch": BATCH,
                   "weights": self.weights, "memory_format": memory_format}
        result = self.side.ask("train " + json.dumps(options), timeout=1800)
        step, alone = settled(result["seconds"]), settled(result["alone_seconds"])
        return Training(self.workers, step, alone, step - alone, tuple(result["losses"]), result.get("test_accuracy"), result["parameters"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.side.stop()


class Plain:
    """Plain libtorch processes that know nothing of each other, on their own cores."""

    def __init__(self, session, processes, weights="", threads=1, model="cnn", program=None, environment=None, sets_threads=False, log=""):
        """`program`: another than the loop in C++, with the same options, requests and answers; `sets_threads`: by torch::set_num_threads(), and not by OMP_NUM_THREADS
        alone; `log`: what tells its log from another's."""
        self.folder, lesson, self.threads = tempfile.TemporaryDirectory(prefix="taxon-bench-"), LESSONS[model], threads
        data = lesson.prepared(session)
        command = [program or session.program("bench_libtorch_loop"), "--model", model, "--weights", weights, "--data", data,
                   "--order", self.order(lesson.samples(data)), *(("--threads", str(threads)) if sets_threads else ())]
        env = [{"OMP_NUM_THREADS": str(threads), **equal.HEAP, **(environment or {})}]
        commands = equal.bound_workers(processes, command)
        name = os.path.basename(command[0]).partition(".")[0] + f" {model} {log}".rstrip()
        self.sides = [Side(f"{name} {i}", [commands[i]], session.log_folder, env) for i in range(processes)]

    def order(self, samples):
        """A file of the indices of the first epochs, 8 bytes each, as one worker of Taxon takes them."""
        path = os.path.join(self.folder.name, "order")
        subprocess.run([ORDER, str(SEED), str(EPOCHS), str(samples), path], check=True)  # by Debian's Python, which has numpy
        return path

    def train(self, work, memory_format, at_once=1, member=None):
        """`at_once` of the processes train together; the figure is that of the mean rate, the losses those of the first. A `member` of slices enters at the start."""
        request = "train " + json.dumps({"steps": work.steps, "test_samples": work.test_samples if work.lesson().is_tested else 0, "rate": work.rate, "batch": work.lesson().batch,
                                          "memory_format": memory_format})
        if member:
            member.enter([process for side in self.sides[:at_once] for process in side.processes])
        for side in self.sides[:at_once]:
            side.send(request)
        results = [side.receive(request, timeout=1800) for side in self.sides[:at_once]]
        if any(result["threads"] != self.threads for result in results):
            raise WrongThreads(f"a plain loop computes with {results[0]['threads']} threads, not with {self.threads}")
        if member:
            member.took(results[0]["seconds"], results[0]["ends"])
        step = statistics.harmonic_mean([settled(result["seconds"]) for result in results])
        return Training(at_once, step, losses=tuple(results[0]["losses"]), accuracy=results[0].get("test_accuracy"), parameters=results[0]["parameters"],
                        details={key: results[0][key] for key in ("version",) if key in results[0]}, model=work.model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in self.sides:
            side.stop()
        self.folder.cleanup()


# name -> overrides that break a run of several workers. A benchmark that does not notice verifies nothing.
PLANTS = {
    "no exchange": ("exchange.levels.0.rule=average", "exchange.levels.0.period=1000000"),  # replicas that meet after the run
    "other rate": ("learning_rate.base=0.002",),
    "other seed": ("seed=2",),
}


def planted(session):
    return PLANTS[session.plant] if session.plant else ()
