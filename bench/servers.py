"""Communication of synchronous parameter servers, dedicated and co-located, against the closed forms and against all-reduce."""
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile

from harness import pairs
from harness.build import ROOT
from harness.cluster import Cluster, NoCluster
from harness.group import run_group
from harness.rows import Row, claim
from harness.stream import stream_bandwidth

PACKAGES = ("python3-torch", "libtorch-dev", "libopenblas0-openmp", "dataset-fashion-mnist", "libucx-dev", "iproute2")
PATHS = ("src", "apps/taxon", "bench/servers.py", "bench/harness", "bench/bounds", "bench/recipes/servers.yaml", "bench/recipes/wide.py", "tools/lab")
RECIPES = os.path.join(ROOT, "bench", "recipes")
RATE, CORES = "100mbit", 1.8  # of all hosts together
PORT = 29800
DEDICATED_WANTED, COLOCATED_WANTED = 0.10, 0.15
LOSS_TOLERANCE = 1e-3


@dataclasses.dataclass(frozen=True)
class Setting:
    """`servers` dedicated ones; with none, every worker serves a part. `topology` all_reduce is what the others are compared with."""
    workers: int
    servers: int
    topology: str = "servers"

    def hosts(self):
        return self.workers + self.servers

    def name(self):
        if self.topology == "all_reduce":
            return f"{self.workers} workers, all-reduce"
        return f"{self.workers} workers, " + (f"{self.servers} servers" if self.servers else "each a server")

    def shares(self):
        """Times that the model's bytes pass the busiest link in its busier direction."""
        if self.servers:
            return max(1, self.workers / self.servers)
        return 2 * (self.workers - 1) / self.workers


QUICK = (Setting(2, 0, "all_reduce"), Setting(2, 1), Setting(2, 2), Setting(4, 0, "all_reduce"), Setting(4, 0), Setting(4, 2), Setting(4, 4))
SMOKE = QUICK[:2]
FULL = QUICK + (Setting(3, 0, "all_reduce"), Setting(3, 0), Setting(3, 1), Setting(3, 2), Setting(4, 1), Setting(4, 3), Setting(6, 0, "all_reduce"),
                Setting(6, 0), Setting(6, 2))


def targets(peers_only):
    return ["taxon", "bench_tcp_stream"]


def export(folder):
    path = os.path.join(folder, "wide.pt")
    subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "tools", "export_torchscript.py"), os.path.join(RECIPES, "wide.py") + ":Wide", path,
                    "--shape", "1,28,28", "--classes", "10"], check=True, stdout=sys.stderr)
    return path


def train(session, cluster, setting, script, steps):
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as out:
        level = f"exchange.levels.0.topology={setting.topology}"
        sets = [f"model.torchscript={script}", "model.name=", f"length.steps={steps}", f"mesh.servers={setting.servers}", level]
        command = [session.program("taxon"), "train", os.path.join(RECIPES, "servers.yaml"), "--out", out]
        command += [word for one in sets for word in ("--set", one)]
        hosts = setting.hosts()
        envs = [{"RANK": str(rank), "WORLD_SIZE": str(hosts), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "TAXON_SECRET": "benchmark",
                 "MASTER_ADDR": cluster.addresses[0], "MASTER_PORT": str(PORT), "OMP_NUM_THREADS": "1"} for rank in range(hosts)]
        run_group(setting.name(), [cluster.command(rank, command) for rank in range(hosts)], envs, session.log_folder)
        with open(os.path.join(out, "summary.json")) as file:
            return json.load(file)


def row_of(setting):
    return Row("servers", setting.name(), transport="tcp", ranks=setting.hosts(), peer="the closed form")


def measure(session, setting, script, steps):
    """Runs of one setting follow each other, since a cluster fits one setting; what they scatter is in the row."""
    with Cluster(setting.hosts(), RATE, CORES / setting.hosts()) as cluster:
        bandwidth = stream_bandwidth(session, cluster)
        summaries = [train(session, cluster, setting, script, steps) for _ in range(1 if session.smoke() else 3)]
    summary = summaries[0]
    row = row_of(setting)
    row.unit, row.bytes = "s", 4 * summary["parameters"]
    runs = [(s["step_ms"]["p50"] - s["compute_ms"]) / 1e3 for s in summaries]
    row.ours, row.spread = statistics.median(runs), pairs.relative_spread(runs)
    row.bound = row.theirs = setting.shares() * row.bytes / bandwidth
    row.ratio = row.of_bound = row.bound / row.ours
    row.settings = {"runs": len(summaries), "losses": [s["train_loss"] for s in summaries], "steps": steps, "network": "emulated", "rate": RATE, "stream_bytes_per_second": round(bandwidth),
                    "compute_ms": summary["compute_ms"], "train_loss": summary["train_loss"], "error": round(row.ours / row.bound - 1, 4)}
    return row


def reference(rows, setting):
    """All-reduce of as many workers."""
    wanted = row_of(Setting(setting.workers, 0, "all_reduce")).key()[:3]
    return next((row for row in rows if row.key()[:3] == wanted), None)


def is_asked_for(session, setting):
    """By its name, or as what servers of as many workers are verified by."""
    if setting.servers or setting.topology != "all_reduce" or session.rows.find(row_of(setting)):
        return not session.rows.has(row_of(setting))
    return any(session.rows.wants(row_of(other).case) for other in FULL if other.workers == setting.workers)


def run(session):
    if session.peers_only:
        return
    steps = 2 if session.smoke() else 6 if session.quick() else 12  # the first ones are slower: windows are being measured
    with tempfile.TemporaryDirectory(prefix="taxon-bench-") as folder:
        script = export(folder)
        for setting in SMOKE if session.smoke() else QUICK if session.quick() else FULL:
            if not is_asked_for(session, setting):
                continue
            try:
                row = measure(session, setting, script, steps)
            except NoCluster as error:
                session.skip(setting.name(), error)
                continue
            # Servers that keep workers in step train as all-reduce does, but for rounding.
            if known := reference(session.rows.rows, setting):
                loss = known.settings["train_loss"]
                row.verified = all(abs(one - loss) <= LOSS_TOLERANCE * abs(loss) for one in row.settings["losses"])
            if setting.servers:
                row.want("error", at_most=DEDICATED_WANTED)
            session.rows.add(row)


def summary(rows):
    rows = [row for row in rows if row.unit == "s"]
    lines = [f"{'setting':28} {'measured':>10} {'closed form':>12} {'error':>8}"]
    for row in rows:
        lines.append(f"{row.case:28} {row.ours:8.3f} s {row.bound:10.3f} s {100 * row.settings['error']:+6.1f} %")
    return lines


def claims(rows):
    """A server at every worker costs as long as all-reduce does."""
    def against(row):
        known = reference(rows, Setting(int(row.case.split()[0]), 0))
        return known and abs(row.ours / known.ours - 1)

    return [claim("servers", f"{row.case}: off all-reduce of as many, as a share", [against(row)], max, at_most=COLOCATED_WANTED)
            for row in rows if row.case.endswith("each a server")]
