"""Runs the taxon program for end-to-end tests: in folders of their own, and leaving no process behind.

No test asserts how long something takes. HANGS is only how long a test waits for what never comes; a deadline that a plan gives to
the program is stretched by what the machine takes longer at the moment than an idle one (TaxonTest.patience)."""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["TAXON_PROGRAM"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
HANGS = 300  # seconds
IDLE_START = 0.5  # seconds that the program takes to start on an idle machine

# Identity variables of the surroundings (a CI job may itself be a Slurm step) must not reach the tests.
IDENTITY = re.compile(r"^(RANK|WORLD_SIZE|LOCAL_|MASTER_|GROUP_|ROLE_|TORCHELASTIC|PET_|OMPI_|PMI|MPI_|MV2_|SLURM_|PALS_|TAXON_)")


def clean_environment(**extra):
    environment = {k: v for k, v in os.environ.items() if not IDENTITY.match(k) or k == "TAXON_PROGRAM"}
    environment.update({k: str(v) for k, v in extra.items()})
    return environment


RECIPE = """
name: test
seed: 3
model: {name: mlp}
data: {dataset: synthetic, train_limit: 2000, test_limit: 200}
batch: {global: 40}
length: {epochs: 2}
learning_rate: {base: 0.05}
report: {every_seconds: 0.5, metrics_steps: 5}
"""


class TaxonTest(unittest.TestCase):
    BESIDE_OTHERS = False  # whether it may run beside other tests: it waits for no deadline and says nothing of times or busy cores

    def patience(self, seconds):
        """As many seconds of an idle machine as this one now gives in the result."""
        begin = time.monotonic()
        self.taxon("--version")
        return math.ceil(seconds * max(1, (time.monotonic() - begin) / IDLE_START))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="taxon-test-"))
        self.recipe = self.folder / "recipe.yaml"
        self.recipe.write_text(RECIPE)
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        left = self.processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)
        self.assertEqual(left, [], "processes were left behind")

    def processes(self):
        """Processes of this test: those whose command line names its folder."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                command = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if str(self.folder).encode() in command and state != "Z":
                found.append(int(entry.name))
        return sorted(found)

    def workers(self, out):
        """Pids of the worker processes of a local run, by rank."""
        ranks = {}
        for pid in self.processes():
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for entry in environment:
                if entry.startswith(b"RANK="):
                    ranks[int(entry[5:])] = pid
        return ranks

    def taxon(self, *words, code=0, timeout=HANGS, environment=None):
        """Runs to the end; checks the exit code; returns the completed process."""
        result = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                                cwd=self.folder, env=environment or clean_environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, code, f"{words}\nstdout:\n{result.stdout}\nstderr:\n{result.stderr}")
        return result

    def need_grpc(self):
        """Skips the test in a build without gRPC, which refuses such plans and says what to install."""
        result = subprocess.run([PROGRAM, "train", str(self.recipe), "--dry-run", "--set", "transport.kind=grpc"], capture_output=True, text=True,
                                timeout=HANGS, cwd=self.folder, env=clean_environment(), stdin=subprocess.DEVNULL)
        if result.returncode != 0:
            self.assertIn("transport.kind: this build has no \"grpc\": install libgrpc++-dev", result.stderr)
            self.skipTest("a build without gRPC")

    def start(self, *words, environment=None, log=None):
        log = open(log or self.folder / "log", "w")
        process = subprocess.Popen([PROGRAM, *map(str, words)], stdout=log, stderr=subprocess.STDOUT, cwd=self.folder,
                                   env=environment or clean_environment(), stdin=subprocess.DEVNULL)
        log.close()
        self.started.append(process)
        return process

    def log(self):
        return (self.folder / "log").read_text()

    def wait_until(self, condition, what):
        end = time.monotonic() + HANGS
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.02)
        self.fail(f"{what} did not happen within {HANGS} s; log:\n{self.log()}")

    def steps_seen(self, out):
        path = self.folder / out / "metrics.jsonl"
        if not path.exists():
            return 0
        lines = [line for line in path.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return max((json.loads(line).get("step", 0) for line in lines), default=0)

    def summary(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())
