"""What hides communication: one network with four orders of its exchange, on 4 and on 8 hosts of the test cluster whose link needs about 0.8 of the time
that computation takes. Each stands beside the step that the virtual world says beforehand, from a calibration of the hosts and a profile of the network on
them, and beside how much of the communication it can hide at best: its computation and communication as they are one after the other (the blocking run),
laid out as its order allows."""
import dataclasses
import functools
import json
import os
import re
import statistics
import tempfile

from harness import equal, pairs
from harness.build import ROOT
from harness.cluster import NoCluster
from harness.group import run_group
from harness.rows import Row, claim
from harness.training import job_environments
from harness.twin import UNTIMED, Jobs, Lab, Model, Run, Twin, read_profile, read_run, sets

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev", "iproute2")
PATHS = ("src", "src/planner", "apps/taxon", "bench/overlap.py", "bench/harness", "bench/recipes/real-vs-virtual.yaml", "tools/lab")
RECIPE = os.path.join(ROOT, "bench", "recipes", "real-vs-virtual.yaml")
STEPS = {"smoke": (3, 1), "quick": (8, 1), "full": (12, 3)}  # and turns
PROFILE_STEPS = {"smoke": 3, "quick": 5, "full": 12}
RATIO_WANTED, RATIO_AIMED = (0.7, 0.9), 0.8  # of communication to computation
ERROR_WANTED, HIDDEN_WANTED = 0.10, 0.90
BALANCE_STEPS = 10
CLOSE = 0.02  # bytes of a step

# Processor shares leave a fifth of the machine's cores for the kernel, and more where more hosts take turns. Links are so slow that what bytes cost a host's
# processor, which nothing hides from a host under a quota, is little of its step: some 0.55 Gbit/s for each core of both clusters' hosts. With 440 samples on 8 hosts,
# 1 Gbit/s a core, it was a tenth of the computation. The rate is a first guess: see balanced(). Periods of quotas are short: each step of a ring waits until the next
# host has some of its quota left, which real hosts always have. Quotas are of a millisecond at least.
SETTINGS = (
    (Lab("4 hosts", 4, "160mbit", 0.4, cpu_period_ms=4), Model("cnn", 672)),
    (Lab("8 hosts", 8, "100mbit", 0.18, cpu_period_ms=6), Model("cnn", 800)),
)
SMOKE = ((Lab("4 hosts", 4, "250mbit", 0.4), Model("cnn", 64)),)  # less of everything

BLOCKING, OVERLAPPED, WEIGHTS_FIRST, PRIORITY = "blocking", "overlapped", "weight gradients first", "priority"
RING = "exchange.levels.0.collective=ring"
BACKWARD, FORWARD = ("exchange.overlap=backward", "exchange.order=backward", RING), ("exchange.overlap=forward", "exchange.order=priority")
# What is on its way holds the link: with slices of 1 MiB, four at a time, the first layers' gradients wait for the better part of a forward pass.
# Small ones cost processors.
SLICE_KIB = 256
# The cnn's fully connected layers, which have nearly all of its weights, are 12,890,152 bytes of gradients, and the whole cnn is 12,965,416.
MODES = {
    # One bucket of all gradients is complete when the backward pass is.
    BLOCKING: ("exchange.bucket_bytes=1GiB", "exchange.slice_bytes=1GiB", *BACKWARD),
    # Layers travel whole, as soon as their backward pass is done: the fully connected ones, then the convolutions.
    OVERLAPPED: ("exchange.bucket_bytes=12900000", "exchange.slice_bytes=1GiB", *BACKWARD),
    # A fully connected layer makes its weights' gradient before its inputs', and the first rows travel while the last are made.
    WEIGHTS_FIRST: BACKWARD,
    # And what the next forward pass reads first goes first; it waits layer by layer, of fully connected ones row by row. Small slices go by the collective of
    # fewest messages, others by a ring, which lets them pass: auto.
    PRIORITY: FORWARD,
}
SLICED = (WEIGHTS_FIRST, PRIORITY)


def keys(mode):
    return [*MODES[mode], *([f"exchange.slice_bytes={SLICE_KIB}KiB"] if mode in SLICED else [])]


def targets(peers_only):
    return ["taxon"]


# ---- the closed form -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Seconds: into the backward pass, when it is complete, and of the wire. `segments`: of the forward pass, which read what is in it."""
    segments: tuple
    complete: float
    wire: float
    by_rows: bool = False  # a part of a linear layer's weight: its forward pass takes them one after the other


def exposed(forward, backward, buckets, by_priority):
    """What a step is longer than its computation at best. `forward`: seconds of each segment. The wire carries one bucket after the other; weights change
    behind the backward pass."""
    now, left, there = 0.0, list(buckets), []
    while left:
        now = max(now, min(one.complete for one in left))
        waiting = [one for one in left if one.complete <= now]
        chosen = min(waiting, key=lambda one: (min(one.segments) if by_priority else 0, one.complete))
        left.remove(chosen)
        now += chosen.wire
        there.append((chosen, now))
    if not by_priority:
        return max(0.0, now - backward)
    ends = backward
    for number, seconds in enumerate(forward):
        own = [(one.by_rows, at) for one, at in there if number in one.segments]
        rows = [at for by_rows, at in own if by_rows]
        ends = max([ends, *(at for by_rows, at in own if not by_rows)])
        for at in rows or [ends]:
            ends = max(ends, at) + seconds / max(1, len(rows))
    return ends - backward - sum(forward)


def read_buckets(text):
    """[(parameters, part, parts, bytes)] as the plan of a run says."""
    found = re.findall(r"- parameters: \[([^\]]*)\]\s+part: (\d+)\s+parts: (\d+)\s+bytes: (\d+)", text)
    return [(tuple(names.split(", ")), int(part), int(parts), int(size)) for names, part, parts, size in found]


def laid_out(segments, buckets, computation, communication):
    """(forward, backward, buckets) of the closed form: the profile's shares of `computation`, each bucket's of `communication`, in seconds."""
    scale = computation / sum(one["forward"] + one["backward"] for one in segments)
    place = {name: number for number, one in enumerate(segments) for name in one["parameters"]}
    whole = sum(size for *_, size in buckets)

    def complete(name, part, parts):
        at = segments[place[name]]["parameters"][name]
        return at["gradient_from"] + (at["gradient"] - at["gradient_from"]) * (part / (parts - 1) if parts > 1 else 1)

    def is_linear(name):
        return segments[place[name]]["parameters"][name].get("linear", False)

    made = [Bucket(tuple(sorted({place[name] for name in names})), scale * max(complete(name, part, parts) for name in names), communication * size / whole,
                   parts > 1 and is_linear(names[0])) for names, part, parts, size in buckets]
    return [scale * one["forward"] for one in segments], scale * sum(one["backward"] for one in segments), made


# ---- what the trace shows ------------------------------------------------------------------------------------------

PASSES = ("forward", "forward and backward")


def merged(spans):
    """Of intervals, those that they cover together, in order."""
    found = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return found


def uncovered(spans, others):
    """How long `spans` are outside of `others`."""
    spans, others = merged(spans), merged(others)
    total = sum(end - begin for begin, end in spans)
    return total - sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in spans for b in others)


def traced(trace, untimed=1):
    """Seconds of a step in which rank 0 exchanges gradients and computes nothing: the median of the steps but the `untimed` first ones. A step ends with its last pass
    backward."""
    events = [event for event in trace["traceEvents"] if event.get("pid") == 0 and event.get("ph") == "X"]

    def span(event):
        return event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6

    passes = [span(event) for event in events if event["name"] in PASSES]
    sums = [span(event) for event in events if event["name"].startswith("all_reduce") and str(event.get("args", {}).get("unit", "")).startswith("bucket")]
    ends = sorted(span(event)[1] for event in events if event["name"] == "forward and backward")
    if len(ends) <= untimed:
        return None

    def clipped(spans, begin, end):
        return [(max(a, begin), min(b, end)) for a, b in spans if b > begin and a < end]

    return statistics.median(uncovered(clipped(sums, *pair), clipped(passes, *pair)) for pair in list(zip(ends, ends[1:]))[untimed - 1:])


# ---- runs ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Ordered(Run):
    """With the run's plan, and what traced() says."""
    plan: str = ""
    traced: float = None


def read_ordered(out, mode):
    with open(os.path.join(out, "plan.yaml")) as file:
        plan = file.read()
    with open(os.path.join(out, "trace.json")) as file:
        return Ordered(**vars(read_run(out, mode)), plan=plan, traced=traced(json.load(file), UNTIMED[mode]))


def train(jobs, model, mode, steps):
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
        overrides = [*model.overrides(), *keys(mode), f"length.steps={steps}", "report.metrics_steps=1", "report.trace=true"]
        jobs.as_job("train", ["train", RECIPE, "--out", out, *sets(overrides)])
        return read_ordered(out, jobs.session.mode)


def train_alone(session, lab, model, steps):
    """The same samples on this host, by one process."""
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
        overrides = [f"model.name={model.name}", "batch.per_worker=0", f"batch.global={lab.ranks() * model.batch}", f"length.steps={steps}",
                     "report.metrics_steps=1", "threads=0"]
        command = [session.program("taxon"), "train", RECIPE, "--out", out, *sets(overrides)]
        run_group("alone", [command], job_environments(1, None, "Taxon"), session.log_folder)
        return read_run(out, session.mode)


def balanced(session, lab, model):
    """The lab at such a rate that communication takes about 0.8 of the computation: how fast cores are is the machine's. Not with other samples, of which
    more would need more of the caches that the hosts share."""
    with lab.open() as cluster:
        before = train(Jobs(session, lab, cluster), model, BLOCKING, BALANCE_STEPS)
    ratio = before.step / before.computation - 1
    return dataclasses.replace(lab, rate=f"{round(float(lab.rate.removesuffix('mbit')) * ratio / RATIO_AIMED)}mbit")


def step_row(lab, mode):
    return Row("overlap", f"{lab.name}, {mode}", "tcp", lab.ranks(), peer="the virtual world", unit="ms")


def hidden_row(lab, mode, by):
    return Row("overlap", f"{lab.name}, {mode}: hidden, {by}", "tcp", lab.ranks(), peer="what can be hidden", unit="ms")


BY_STEPS, BY_TRACE = "by the step", "by the trace"


def add_step_row(twin, model, mode, runs, alone, simulated, facts):
    row = step_row(twin.lab, mode)
    steps = [run.step for run in runs]
    row.ours, row.theirs = 1e3 * statistics.median(steps), 1e3 * simulated["step_seconds"]["median"]
    row.ratio, row.spread = row.theirs / row.ours, pairs.relative_spread(steps)
    row.bound = max(facts["computation_ms"], facts["communication_ms"])
    row.of_bound = row.bound / row.ours
    sent = [runs[0].summary["bytes_sent_per_step"], simulated["bytes_sent_per_step"]]
    row.bytes = 4 * runs[0].summary["parameters"]
    row.settings = {**facts, "mode": mode, "error": round(row.theirs / row.ours - 1, 4), "overrides": keys(mode), "bytes_sent_per_step": sent, "exposed_ms":
                    1e3 * statistics.median(run.exposed for run in runs), "compute_ms": 1e3 * statistics.median(run.computation for run in runs),
                    "worst_loss_difference": max(equal.worst_difference(run.losses, alone.losses) for run in runs), "others": twin.disturbed}
    row.verified = (all(equal.same(run.losses, alone.losses) for run in runs) and abs(sent[1] / sent[0] - 1) <= CLOSE and (twin.session.smoke() or twin.quiet()))
    twin.session.rows.add(row.want("error", at_least=-ERROR_WANTED, at_most=ERROR_WANTED))
    return row


def add_hidden_rows(twin, mode, runs, blocking, hideable, verified, facts):
    """`hideable`: seconds."""
    figures = {BY_STEPS: (lambda run: run.step), BY_TRACE: (lambda run: run.traced)}
    for by, figure in figures.items():
        row = hidden_row(twin.lab, mode, by)
        hidden = [figure(before) - figure(after) for before, after in zip(blocking, runs)]
        row.ours, row.theirs = 1e3 * statistics.median(hidden), 1e3 * hideable
        row.ratio = row.of_bound = row.ours / row.theirs
        row.bound, row.spread, row.verified = row.theirs, pairs.relative_spread(hidden), verified
        row.settings = {"mode": mode, "network": "emulated", "by": by, "communication_ms": facts["communication_ms"],
                        "figure_ms": 1e3 * statistics.median(map(figure, runs))}
        twin.session.rows.add(row.want("of_bound", at_least=HIDDEN_WANTED))


def run_setting(session, lab, model):
    hidden = [hidden_row(lab, mode, by) for mode in MODES if mode != BLOCKING for by in (BY_STEPS, BY_TRACE)]
    if all(session.rows.has(row) for row in (*(step_row(lab, mode) for mode in MODES), *hidden)):
        return
    steps, rounds = STEPS[session.mode]
    if not session.smoke():
        lab = balanced(session, lab, model)
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
        with lab.open() as cluster:
            twin = Twin(session, lab, cluster, folder, RECIPE)
            alone = train_alone(session, lab, model, steps)
            profile = twin.profile(model, PROFILE_STEPS[session.mode])
            runs = pairs.take_turns({mode: functools.partial(train, twin, model, mode, steps) for mode in MODES}, rounds)
        with open(profile) as file:
            segments = read_profile(file.read())
        computation = statistics.median(run.computation for run in runs[BLOCKING])
        communication = statistics.median(run.step for run in runs[BLOCKING]) - computation
        facts = {"network": "emulated", "rate": lab.rate, "cores_per_host": lab.cores_per_host, "cpu_period_ms": lab.cpu_period_ms, "batch_per_worker": model.batch,
                 "steps": steps, "untimed_steps": UNTIMED[session.mode], "turns": rounds, "computation_ms": 1e3 * computation, "communication_ms": 1e3 * communication, "ratio": communication / computation,
                 "profile_ms": 1e3 * sum(one["forward"] + one["backward"] for one in segments)}
        for mode in MODES:
            least = exposed(*laid_out(segments, read_buckets(runs[mode][0].plan), computation, communication), mode == PRIORITY)
            closed = 1e3 * (computation + least)
            row = add_step_row(twin, model, mode, runs[mode], alone, twin.simulate(model, keys(mode), 10), facts | {"closed_form_ms": closed})
            if mode != BLOCKING:
                add_hidden_rows(twin, mode, runs[mode], runs[BLOCKING], communication - least, row.verified, facts)


def run(session):
    if session.peers_only:
        return
    for lab, model in SMOKE if session.smoke() else SETTINGS:
        try:
            run_setting(session, lab, model)
        except NoCluster as error:
            session.skip(lab.name, error)


def claims(rows):
    steps = [row for row in rows if "error" in row.settings]
    for ranks in sorted({row.ranks for row in steps}):
        here = {row.settings["mode"]: row for row in steps if row.ranks == ranks}
        low, high = RATIO_WANTED
        yield claim("overlap", f"{ranks} hosts: communication over computation", [here[mode].settings["ratio"] for mode in here], max, at_least=low, at_most=high)
        order = [here[mode].ours for mode in MODES if mode in here]
        yield claim("overlap", f"{ranks} hosts: each order over the one before, the longest", [b / a for a, b in zip(order, order[1:])], max, at_most=1.02)
    yield claim("overlap", "predicted steps: farthest from the measured ones, as a share", [abs(row.settings["error"]) for row in steps], max, at_most=ERROR_WANTED)
    yield claim("overlap", "of what can be hidden: the lowest share that is", [row.of_bound for row in rows if "by" in row.settings], min, at_least=HIDDEN_WANTED)


def summary(rows):
    return ["hosts of the test cluster are emulated"]
