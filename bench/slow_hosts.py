"""Time to 88 % test accuracy (85 % within the single epoch of --quick) where hosts are equal, where one is three times slower for good, and where each is so now and then: one preset of each
way to keep ranks together, against dense synchronous training. Hosts are slow because their share of the processors is."""
import contextlib
import dataclasses
import random
import sys
import threading

import harness.preset as preset_run
from harness.cluster import Cluster, NoCluster
from harness.rows import Row

PACKAGES = ("libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev", "iproute2")
HOSTS, RATE, CORES, SLOWDOWN = 4, "10gbit", 0.45, 3
SLOT, SLOW_SHARE = 0.25, 1 / 4  # seconds that a slowdown lasts, and how often a host has one
TARGET, QUICK_TARGET = 0.88, 0.85


@dataclasses.dataclass(frozen=True)
class Preset:
    """`sooner`: in which settings it must reach the target before synchronous training."""
    name: str
    keeps_step: bool
    sooner: tuple = ()


DENSE = Preset("horovod", True)
PRESETS = (DENSE, Preset("tensorflow-backup", False, ("one slow host", "slowdowns")), Preset("bosen", False, ("slowdowns",)),
           Preset("downpour", False, ("one slow host", "slowdowns")), Preset("ad-psgd", False, ("one slow host", "slowdowns")))
MORE = (Preset("mxnet-sync", True), Preset("li-parameter-server", False, ("slowdowns",)), Preset("rudra-softsync", False, ("one slow host", "slowdowns")),
        Preset("dc-asgd", False, ("one slow host", "slowdowns")), Preset("easgd", False, ("one slow host", "slowdowns")), Preset("d-psgd", True),
        Preset("local-sgd", True))


@contextlib.contextmanager
def equal_hosts(cluster):
    yield


@contextlib.contextmanager
def one_slow_host(cluster):
    cluster.set_cores(HOSTS - 1, CORES / SLOWDOWN)
    try:
        yield
    finally:
        cluster.set_cores(HOSTS - 1, CORES)


@contextlib.contextmanager
def slowdowns(cluster):
    over = threading.Event()

    def draw():
        chance, now = random.Random(1), [False] * HOSTS
        while not over.wait(SLOT):
            for host in range(HOSTS):
                slow = chance.random() < SLOW_SHARE
                if slow != now[host]:
                    cluster.set_cores(host, CORES / SLOWDOWN if slow else CORES)
                now[host] = slow

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for host in range(HOSTS):
            cluster.set_cores(host, CORES)


SETTINGS = {"equal hosts": equal_hosts, "one slow host": one_slow_host, "slowdowns": slowdowns}


def targets(peers_only):
    return ["taxon"]


def target_of(session):
    return QUICK_TARGET if session.quick() else TARGET


def row_of(setting, preset):
    return Row("slow-hosts", f"{setting}: {preset.name}", transport="tcp", ranks=HOSTS, peer="dense synchronous")


def known(session, setting, preset):
    return next((row for row in session.rows.rows if row.case == row_of(setting, preset).case), None)


def verified(session, setting, preset, summary):
    """Who keeps step computes the same bits however slow the hosts are; the others learn."""
    first = known(session, next(iter(SETTINGS)), preset)
    if preset.keeps_step and first:
        return first.settings["parameter_hash"] == summary["parameter_hash"]
    return summary["test_accuracy"] > target_of(session) - 0.05


def measure(session, setting, preset, cluster):
    overrides = [f"length.epochs={1 if session.quick() else 3}", "evaluation.every_epochs=0.05", "data.test_limit=5000"]
    with SETTINGS[setting](cluster):
        summary, tests = preset_run.train(session, preset.name, HOSTS, cluster, overrides)
    reached = preset_run.first_reaching(tests, target_of(session))
    row = row_of(setting, preset)
    row.unit, row.bytes, row.verified = "s", 4 * summary["parameters"], verified(session, setting, preset, summary)
    row.ours = reached["seconds"] if reached else None
    dense = known(session, setting, DENSE)
    row.theirs = dense.ours if dense else row.ours
    row.ratio = row.theirs / row.ours if row.theirs and row.ours else None
    row.settings = {"network": "emulated", "cores_per_host": CORES, "setting": setting, "preset": preset.name, "target": target_of(session),
                    "samples": reached["samples"] if reached else None, "samples_per_second": summary["samples_per_second"],
                    "accuracy": summary["test_accuracy"], "staleness": summary.get("staleness", {}).get("mean"),
                    "dropped": summary.get("staleness", {}).get("dropped"), "parameter_hash": summary["parameter_hash"]}
    return row


def run(session):
    if session.peers_only:
        return
    try:
        with Cluster(HOSTS, RATE, CORES) as cluster:
            for preset in PRESETS if session.quick() else PRESETS + MORE:
                for setting in SETTINGS:
                    if not session.rows.has(row_of(setting, preset)):
                        session.rows.add(measure(session, setting, preset, cluster))
    except NoCluster as error:
        print(f"skipped: the test cluster ({error})", file=sys.stderr)


def summary(rows):
    wanted = {preset.name: preset.sooner for preset in PRESETS + MORE}
    lines = []
    for setting in SETTINGS:
        lines.append(setting)
        for row in rows:
            at = row.settings
            if at["setting"] != setting:
                continue
            took = f"{row.ours:6.1f} s" if row.ours else "   never"
            more = f", mean staleness {at['staleness']:.2f}" if at["staleness"] is not None else ""
            versus = f", {row.ratio:.2f}x sooner than dense" if row.ratio and at["preset"] != DENSE.name else ""
            note = " (wanted above 1)" if setting in wanted[at["preset"]] else ""
            lines.append(f"  {at['preset']:20} {took} to {100 * at['target']:g} %, {at['samples_per_second']:.0f} samples/s, ends at "
                         f"{100 * at['accuracy']:.1f} %{more}{versus}{note}")
    return [*lines, "hosts and links are emulated"]
