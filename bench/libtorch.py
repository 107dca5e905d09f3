"""One worker's step with Debian's libtorch and with that of PyPI's newest PyTorch, of three models, against plain loops on the same library in C++ and in Python:
the same weights at the start, the same batches, memory formats, threads and cores."""
import contextlib
import dataclasses
import functools
import math
import random
import statistics

from harness import build, equal, machine, packages, pairs, slices, texts, training
from harness.rows import Row, claim
from harness.training import TORCH_LOOP, Plain, Weights, Work, planted, run_taxon

PACKAGES = ("libopenblas0-openmp", "dataset-fashion-mnist", "python3-numpy", "python3-torch", *texts.PACKAGES)
PATHS = ("src", "apps/taxon", "bench/libtorch.py", "bench/harness", "bench/peers", "bench/recipes/cnn.yaml", "bench/recipes/gpt.yaml", "cmake/Libtorch.cmake")
RELEASES = ("", "2.15")  # of libtorch: the system's, and one of PyPI
# Steps, of which the first and what comes after the first side's end are not timed, and rounds: what differs is processes, more than a process's steps.
STEPS = {"cnn": {"smoke": (10, 1), "quick": (40, 3), "full": (100, 8)}, "resnet18": {"smoke": (5, 1), "quick": (5, 2), "full": (7, 8)},
         "gpt": {"smoke": (5, 1), "quick": (10, 3), "full": (32, 8)}}
# A full run takes more rounds than these until it knows the ratio as well as this, and on which side of what is wanted it lies by so many standard errors, or has
# taken the most.
STANDARD_ERROR, CLEAR, MOST_ROUNDS = 0.004, 2, 40
TEST_SAMPLES = 200
SLICE = 0.05  # seconds; a machine's speed changes within a few of them, and all sides pay alike for a switch
CPP, PYTHON, BEST = "plain loop in C++", "plain loop in Python", "the better of each"
LEAST = {CPP: 0.99, PYTHON: 1}  # of the peer's speed
# How a peer's libtorch learns its number of threads -> of Plain. The second also tells MKL not to choose fewer (mkl_set_dynamic(0)): where attention's threads then
# wait for the heap in which OpenMP makes teams, it is the slower one. Nobody knows beforehand.
COUNTS = {"OMP_NUM_THREADS": {}, "set_num_threads": {"sets_threads": True}}
# What Taxon chooses where it has the cores to itself, as all have here in their slices; peers' threads always wait so. Sides that begin at once, and stop in
# the middle of steps, look like others on its cores.
WAITING = ("waiting=active",)
PLANTS = {name: overrides for name, overrides in training.PLANTS.items() if name != "no exchange"}  # one worker has nobody to exchange with


def targets(peers_only):
    return ["bench_libtorch_loop", "taxon"]  # the program says which library it is


def environment_of(release):
    """Of Python, where its PyTorch is not the system's."""
    return {"PYTHONPATH": packages.ensure_python_torch(release)} if release else {}


def fill(row, ours, theirs, settings):
    row.theirs = statistics.median(t.step for t in theirs) * 1e3
    row.settings = dict(settings)
    if ours:
        row.ours = statistics.median(t.step for t in ours) * 1e3
        row.ratio, row.spread = pairs.ratio(False, [t.step for t in ours], [t.step for t in theirs])
        row.bound, row.of_bound = row.theirs, row.theirs / row.ours
        row.verified = all(equal.same(a.losses, b.losses) for a in ours for b in theirs)
        row.settings |= {"worst_loss_difference": max(equal.worst_difference(a.losses, b.losses) for a in ours for b in theirs),
                         "accuracy": [training.accuracy_of(runs) for runs in (ours, theirs)]}
        row.want("ratio", at_least=LEAST[row.peer])
    return row


def counts_for(facts, threads):
    return list(COUNTS) if threads > 1 and "Math Kernel Library" in facts["BLAS"] else list(COUNTS)[:1]


def take_round(session, library, release, weights, work, threads, counts, number):
    """(side, memory format, how it learnt its threads) -> its training: one process of each under way at once, of which one computes at a time. Every round begins
    them anew, in an order of its own: what a process happens to get for as long as it lives, such as where its memory lies, is drawn as often for one side as for
    another, and of equal processes that which begins first can be the fastest."""
    formats, loops = work.lesson().formats, {CPP: {}, PYTHON: {"program": TORCH_LOOP, "environment": environment_of(release)}}
    with contextlib.ExitStack() as stack:

        def train_plain(peer, one, count, member):
            side = stack.enter_context(Plain(library, 1, weights, threads, work.model, log=f"{one} {count}", **loops[peer], **COUNTS[count]))
            side.train(dataclasses.replace(work, steps=1, test_samples=0), one)  # what it has to load is none of the slices' matter
            return side.train(work, one, member=member)

        members = {(peer, one, count): functools.partial(train_plain, peer, one, count) for one in formats for peer in loops for count in counts}
        if not session.peers_only:
            overrides = (*WAITING, *planted(session))
            members |= {("Taxon", one, "recipe"): functools.partial(run_taxon, library, 1, work, one, threads=threads, overrides=overrides) for one in formats}
        order = random.Random(number).sample(list(members), len(members))
        taken, paces = slices.together({name: members[name] for name in order}, SLICE)
        return {name: dataclasses.replace(one, step=paces[name]) for name, one in taken.items()}


def fastest(found):
    return equal.better(found, lambda t: 1 / t.step) if found else None


def median_error(values):
    """The standard error of their median, as a share of it, if they are spread as by chance."""
    of_mean = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return math.sqrt(math.pi / 2) * of_mean / statistics.median(values)


def is_settled(ratios, wanted):
    error = median_error(ratios)
    return error <= STANDARD_ERROR and abs(statistics.median(ratios) - wanted) >= CLEAR * error


class Runs:
    """Of some rounds, each side's: by_side[name][memory format] -> its trainings, a peer's in the faster one of the ways to learn its threads, which is
    counts[name, memory format]; and the faster one of each side's formats."""

    def __init__(self, taken, formats):
        by_count = {}  # (side, memory format) -> how it learnt its threads -> its trainings
        for side, one, count in taken[0]:
            by_count.setdefault((side, one), {})[count] = [took[side, one, count] for took in taken]
        self.counts = {name: fastest(found) for name, found in by_count.items()}
        self.by_side = {name: {one: by_count[name, one][self.counts[name, one]] for one in formats if (name, one) in by_count} for name in ("Taxon", CPP, PYTHON)}
        self.best = {name: fastest(found) for name, found in self.by_side.items()}

    def ratios(self, peer):
        """The better formats', round by round."""
        ours, theirs = (self.by_side[name][self.best[name]] for name in ("Taxon", peer))
        return [b.step / a.step for a, b in zip(ours, theirs)]

    def are_enough(self):
        if not self.by_side["Taxon"] or len(self.ratios(CPP)) >= MOST_ROUNDS:
            return True
        return all(is_settled(self.ratios(peer), least) for peer, least in LEAST.items())


def run_case(session, release, model, threads):
    """All sides compute with as many threads on the same cores."""
    library = session.with_libtorch(release)
    facts, lesson = build.version_of(library.build_dir), training.LESSONS[model]
    cases = {kind: f"{model}, libtorch {facts['libtorch']}, threads: {threads}, {kind}" for kind in (*lesson.formats, BEST)}
    missing = [(kind, peer) for kind in cases for peer in LEAST if not session.rows.has(Row("torch", cases[kind], "none", 1, peer=peer))]
    if not missing:
        return
    steps, rounds = STEPS[model][session.mode]
    work = Work(steps, 0, TEST_SAMPLES if lesson.is_tested else 1, lesson.rate, model)
    taken = []
    with Weights(library, model) as weights:
        while len(taken) < rounds or session.mode == "full" and not Runs(taken, lesson.formats).are_enough():
            taken.append(take_round(session, library, release, weights, work, threads, counts_for(facts, threads), len(taken)))
    runs = Runs(taken, lesson.formats)
    settings = {"batch": lesson.batch, "threads": threads, "steps": steps, "slice_s": SLICE, "pairs": len(taken), "rate": work.rate, "blas": facts["BLAS"],
                "onednn": facts["oneDNN"]}
    for kind, peer in missing:
        ours, theirs = (runs.best["Taxon"], runs.best[peer]) if kind == BEST else (kind, kind)
        more = {"formats": [ours, theirs]} if kind == BEST else {}
        if peer == PYTHON:
            more["python_torch"] = runs.by_side[PYTHON][lesson.formats[0]][0].details.get("version")
        more["threads_by"] = runs.counts[peer, theirs]
        session.rows.add(fill(Row("torch", cases[kind], "none", 1, peer=peer, unit="ms"), runs.by_side["Taxon"].get(ours), runs.by_side[peer][theirs],
                              settings | more))


def run(session):
    for release in RELEASES:
        for model in STEPS:
            for threads in [1] if session.smoke() else sorted({1, machine.cores()}):
                run_case(session, release, model, threads)


def claims(rows):
    """Of both libraries each side's better format counts."""
    for peer, least in LEAST.items():
        yield claim("torch", f"against the {peer}, the lowest", [row.ratio for row in rows if row.peer == peer and row.case.endswith(BEST)], min, at_least=least)


def summary(rows):
    """How much faster the newer library is at the same work."""
    lines, steps = [], {}
    for row in rows:
        if row.ours and row.peer == CPP and row.case.endswith(BEST):
            model, library, threads, _ = row.case.split(", ", 3)
            steps.setdefault((model, threads), []).append((library, row.ours))
    for (model, threads), found in steps.items():
        lines += [f"{model}, {threads}: {found[0][1] / step:.2f} times as fast with {library} as with {found[0][0]}" for library, step in found[1:]]
    return lines
