"""JPEG files as training data: the share of a step that two workers wait for their images, and decoded images per second beside a loop in Python with
Pillow on as many threads or processes. Images are the same, pixel by pixel, with the same crops and flips."""
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from harness import equal, machine, pairs
from harness.build import ROOT
from harness.group import run_group
from harness.rows import Row, claim
from harness.side import Side
from harness.training import PEERS, job_environments, threads_for

PACKAGES = ("python3-pil", "python3-numpy", "python3-torch", "libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev")
PATHS = ("src", "apps/taxon", "bench/images.py", "bench/ours/images.cc", "bench/harness", "bench/peers/image_loader.py", "bench/peers/pictures.py", "bench/peers/order.py",
         "bench/recipes/images.yaml", "tools/export_fashion_mnist.py")
RECIPE = os.path.join(ROOT, "bench", "recipes", "images.yaml")
WORKERS, BATCH = 2, 64  # of each worker
TRAINED = {"smoke": (4, 1), "quick": (60, 3), "full": (400, 7)}  # steps, and turns
ENOUGH_STEPS = 20  # below which a run is too short to say how long it waits
COMPARED = 100  # images
GREY_LEVELS = 1  # that they may differ by
MOST_WAITED = 0.02
PEER = "Pillow in Python"


@dataclasses.dataclass(frozen=True)
class Pictures:
    """A folder of JPEG files, and what is made of one: cut out of the picture with so much padding around it, flipped by chance, normalised."""
    name: str
    counts: dict  # of training pictures, by mode
    extent: int
    channels: int
    padding: int
    size: int
    mean: tuple
    deviation: tuple
    batches: dict  # that are measured, by mode

    def transforms(self):
        crop = f"{{name: random_crop, padding: {self.padding}, size: {self.size}}}"
        normalise = f"{{name: normalise, mean: {list(self.mean)}, deviation: {list(self.deviation)}}}"
        return f"[{crop}, horizontal_flip, {normalise}]"

    def overrides(self, folder):
        return [f"data.path={folder}", f"data.channels={self.channels}", "data.mean=0", "data.deviation=1", f"data.transforms={self.transforms()}"]

    def options(self, folder):
        return json.dumps({"folder": folder, "channels": self.channels, "padding": self.padding, "size": self.size, "mean": self.mean, "deviation": self.deviation})


SMALL = Pictures("Fashion-MNIST, 28 x 28", {"smoke": 600, "quick": 60000, "full": 60000}, 28, 1, 2, 28, (0.286,), (0.353,),
                 {"smoke": 4, "quick": 150, "full": 900})
LARGE = Pictures("pictures, 256 x 256", {"smoke": 100, "quick": 1000, "full": 4000}, 256, 3, 0, 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225),
                 {"smoke": 2, "quick": 20, "full": 60})
ROUNDS = {"smoke": 1, "quick": 3, "full": 9}


def targets(peers_only):
    return [] if peers_only else ["taxon", "bench_images"]


def written(session, pictures):
    """The folder of the files, kept beside the programs."""
    count = pictures.counts[session.mode]
    folder = os.path.join(session.build_dir, "bench-data", f"jpeg-{pictures.extent}-{count}")
    if os.path.exists(folder):
        return folder
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as partial:
        made = os.path.join(partial, "made")
        if pictures is SMALL:
            command = ["/usr/bin/python3", os.path.join(ROOT, "tools", "export_fashion_mnist.py"), "images", made, "--limit", str(count)]
        else:
            command = [os.path.join(PEERS, "pictures.py"), made, str(count), str(pictures.extent)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        shutil.move(made, folder)
    return folder


# ---- images per second ---------------------------------------------------------------------------------------------


def ways(threads):
    """How Python may load: what is fastest counts."""
    return ("alone", "processes") if threads == 1 else ("threads", "processes")


def rate_row(pictures, threads):
    return Row("images", f"{pictures.name}, threads: {threads}", "none", 1, peer=PEER, unit="images/s")


class Loading:
    """Both sides with so many threads."""

    def __init__(self, session, pictures, threads, ours, theirs):
        self.batches, self.threads, self.sides, self.mode = pictures.batches[session.mode], threads, {"Taxon": ours, PEER: theirs}, session.mode
        self.verified = None

    def rate(self, name, way=None):
        """Images per second; the first batches find files in memory and threads started."""
        request = {"threads": self.threads, "batch": BATCH, "batches": self.batches, "unmeasured": max(2, self.batches // 5), **({"way": way} if way else {})}
        return self.batches * BATCH / self.sides[name].ask("load " + json.dumps(request), timeout=600)["seconds"]

    def measure(self):
        found = {way: self.rate(PEER, way) for way in ways(self.threads)}
        best = max(found, key=found.get)
        turns = {PEER: lambda: self.rate(PEER, best)}
        if self.sides["Taxon"]:
            turns["Taxon"] = lambda: self.rate("Taxon")
        return pairs.take_turns(turns, ROUNDS[self.mode]), best, found


def differences(ours, theirs, count):
    """How far the sides' images are apart, in grey levels; None: they are not even of one shape."""
    with tempfile.NamedTemporaryFile(prefix="taxon-bench-") as file:
        ours.ask("dump " + json.dumps({"count": count, "file": file.name}))
        return theirs.ask("compare " + json.dumps({"count": count, "file": file.name}))["grey_levels"]


def run_rates(session, pictures):
    wanted = [threads for threads in sorted({1, machine.cores()}) if not session.rows.has(rate_row(pictures, threads))]
    if not wanted:
        return
    folder = written(session, pictures)
    environment = [{"OMP_NUM_THREADS": "1"}]
    with Side(f"Pillow {pictures.extent}", [[os.path.join(PEERS, "image_loader.py"), pictures.options(folder)]], session.log_folder, environment) as theirs:
        ours = None if session.peers_only else Side(f"images {pictures.extent}", [[session.program("bench_images"), RECIPE, *pictures.overrides(folder)]],
                                                    session.log_folder, environment)
        try:
            apart = differences(ours, theirs, min(COMPARED, pictures.counts[session.mode])) if ours else None
            for threads in wanted:
                figures, best, found = Loading(session, pictures, threads, ours, theirs).measure()
                row = rate_row(pictures, threads)
                row.theirs = statistics.median(figures[PEER])
                row.settings = {"batch": BATCH, "pairs": ROUNDS[session.mode], "images": pictures.counts[session.mode], "peer_variant": best,
                                "theirs_all": {way: round(rate, 1) for way, rate in found.items()}, "grey_levels": apart}
                if ours:
                    row.ours = statistics.median(figures["Taxon"])
                    row.ratio, row.spread = pairs.ratio(True, figures["Taxon"], figures[PEER])
                    row.verified = apart is not None and apart <= GREY_LEVELS
                    row.want("ratio", at_least=1)
                session.rows.add(row)
        finally:
            if ours:
                ours.stop()


# ---- waiting -------------------------------------------------------------------------------------------------------


def train(session, workers, steps, folder):
    """The run's summary, and the loss of every step; the batch of all workers is the same whatever their number."""
    sets = [f"data.path={folder}", f"batch.global={WORKERS * BATCH}", f"length.steps={steps}", f"threads={threads_for(WORKERS)}", "data.test_limit=1", "report.metrics_steps=1",
            "report.tensorboard=false", "checkpoint.every_epochs=0"]
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
        command = [session.program("taxon"), "train", RECIPE, "--out", out, *(word for one in sets for word in ("--set", one))]
        run_group(f"images {workers}", equal.bound_workers(workers, command), job_environments(workers, None, "Taxon"), session.log_folder)
        with open(os.path.join(out, "summary.json")) as file:
            summary = json.load(file)
        with open(os.path.join(out, "metrics.jsonl")) as file:
            return summary, [line["loss/train"] for line in map(json.loads, file) if "loss/train" in line]


def waited(summary):
    """The share of a step in which the next batch was not ready."""
    return summary["data_wait_ms"] / (1e3 * WORKERS * BATCH / summary["samples_per_second"])


def run_waiting(session):
    row = Row("images", f"{SMALL.name}, cnn, share of a step that waits for images", "shared memory", WORKERS, unit="")
    if session.peers_only or session.rows.has(row):
        return
    folder = written(session, SMALL)
    steps, rounds = TRAINED[session.mode]
    found = [train(session, WORKERS, steps, folder) for _ in range(rounds)]
    _, alone = train(session, 1, min(steps, ENOUGH_STEPS), folder)
    row.ours = statistics.median(waited(summary) for summary, _ in found)
    row.spread = pairs.relative_spread([1 + waited(summary) for summary, _ in found])
    row.verified = all(equal.same(losses[:len(alone)], alone) for _, losses in found)
    row.settings = {"steps": steps, "runs": rounds, "images": SMALL.counts[session.mode], "batch_per_worker": BATCH,
                    "step_ms": statistics.median(summary["step_ms"]["p50"] for summary, _ in found),
                    "data_wait_ms": [summary["data_wait_ms"] for summary, _ in found],
                    "worst_loss_difference": max(equal.worst_difference(losses[:len(alone)], alone) for _, losses in found)}
    session.rows.add(row.want("ours", at_most=MOST_WAITED))


def run(session):
    if session.rows.wants(SMALL.name):
        run_waiting(session)
    for pictures in (SMALL, LARGE):
        run_rates(session, pictures)


def claims(rows):
    yield claim("images", f"images per second over {PEER}, the lowest", [row.ratio for row in rows if row.peer == PEER], min, at_least=1)


def summary(rows):
    return []
