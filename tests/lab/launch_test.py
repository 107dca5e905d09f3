#!/usr/bin/env python3
"""taxon launch over real ssh daemons, on hosts of a test cluster. Skipped (exit 77) without root or sshd."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = str(ROOT / "tools" / "lab")
PROGRAM = os.environ.get("TAXON_PROGRAM", str(ROOT / "build" / "dev" / "bin" / "taxon"))
NAME = f"launch-{os.getpid()}"
SKIPPED = 77
HOSTS = 4
SECRET = "a-secret-that-nobody-may-see-7f3a"
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


def lab(*words, **more):
    return subprocess.run([LAB, *words], capture_output=True, text=True, timeout=120, **more)


def in_host(host, *command):
    return lab("exec", "--name", NAME, str(host), "--", *command)


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="taxon-launch-"))
        os.chmod(cls.folder, 0o755)
        up = lab("up", "--name", NAME, "--hosts", str(HOSTS), "--rate", "1gbit", "--json")
        if up.returncode != 0:
            raise AssertionError(up.stderr)
        (cls.folder / "recipe.yaml").write_text(RECIPE)
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", cls.folder / key], check=True)
        shutil.copy(cls.folder / "user_key.pub", cls.folder / "authorized")
        (cls.folder / "sshd_config").write_text(
            f"HostKey {cls.folder}/host_key\nAuthorizedKeysFile {cls.folder}/authorized\nStrictModes no\nUsePAM no\n"
            f"PermitRootLogin yes\nPidFile none\nPasswordAuthentication no\nMaxStartups 100\n")
        (cls.folder / "ssh_config").write_text(
            f"IdentityFile {cls.folder}/user_key\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n")
        os.makedirs("/run/sshd", exist_ok=True)
        for host in range(HOSTS):
            started = in_host(host, "/usr/sbin/sshd", "-f", str(cls.folder / "sshd_config"), "-E", str(cls.folder / f"sshd{host}.log"))
            if started.returncode != 0:
                raise AssertionError(started.stderr)

    @classmethod
    def tearDownClass(cls):
        lab("down", "--name", NAME)
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.out = self.folder / self._testMethodName
        # One word for the recipe and for the folder, which launchers must tell apart.
        shutil.copy(self.folder / "recipe.yaml", self.folder / f"{self.out.name}.yaml")
        self.log = self.folder / f"{self._testMethodName}.log"

    def tearDown(self):
        end = time.monotonic() + 30
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.processes(), [], "processes were left behind")

    def processes(self):
        """Agents, ranks and launchers of this test's folder, on all hosts."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                folder = os.readlink(f"/proc/{entry}/cwd")
                state = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and folder == str(self.folder) and any(word in (b"agent", b"train", b"launch") for word in command[:3]):
                found.append(int(entry))
        return found

    def ranks(self):
        """Process ids by rank."""
        ranks = {}
        for pid in self.processes():
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            for entry in environment:
                if entry.startswith(b"RANK=") and b"train" in command:
                    ranks[int(entry[5:])] = pid
        return ranks

    def launch(self, *words, hosts="host0,host1,host2,host3", own=(), environment=None):
        command = [LAB, "exec", "--name", NAME, "host0", "--", PROGRAM, "launch", "--ssh", f"ssh -F {self.folder}/ssh_config",
                   *map(str, own), "--hosts", hosts, f"{self.out.name}.yaml", "--out", self.out.name, *map(str, words)]
        with open(self.log, "w") as log:
            return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                    env={**os.environ, **(environment or {})}, start_new_session=True)

    def said(self):
        return self.log.read_text()

    def wait_until(self, condition, what, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what} did not happen:\n{self.said()}")
            time.sleep(0.02)

    def steps(self):
        path = self.out / "metrics.jsonl"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def test_four_hosts_train_and_the_secret_is_on_no_command_line(self):
        process = self.launch("--set", "length.epochs=10", environment={"TAXON_SECRET": SECRET})
        self.wait_until(lambda: self.steps() > 0 or process.poll() is not None, "training")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                self.assertNotIn(SECRET.encode(), pathlib.Path(f"/proc/{entry}/cmdline").read_bytes())
            except OSError:
                continue
        self.assertEqual(process.wait(200), 0, self.said())
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertEqual(summary["world_size"], HOSTS)
        self.assertIn("[host0] ", self.said())
        self.assertNotIn(SECRET, self.said())

    def test_slots_are_ranks_of_a_host(self):
        process = self.launch(hosts="host1,host2", own=("--slots", 2))
        self.assertEqual(process.wait(200), 0, self.said())
        self.assertEqual(json.loads((self.out / "summary.json").read_text())["world_size"], 4)

    def test_user_is_whom_ssh_logs_in_as(self):
        process = self.launch(hosts="host1,host2", own=("--user", "root"))
        self.assertEqual(process.wait(200), 0, self.said())
        shutil.rmtree(self.out)
        process = self.launch(hosts="host1,host2", own=("--user", "taxon-nobody"))
        self.assertNotEqual(process.wait(100), 0)
        for host in ("host1", "host2"):
            self.assertIn(host, self.said())
        self.assertFalse(self.out.exists(), "it trained as somebody else")

    def test_everything_that_is_wrong_anywhere_is_listed_at_once(self):
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        # host1 has another folder there; nobody is at 203.0.113.9 and host3's daemon is another version's.
        other = self.folder / "another"
        other.write_text("#!/bin/sh\necho '{\"agent\": 1, \"version\": \"0.0.0\"}'\ncat > /dev/null\n")
        other.chmod(0o755)
        self.assertEqual(in_host(3, "mount", "--bind", str(other), PROGRAM).returncode, 0)
        try:
            # A daemon keeps the mounts that it was started with: they are the host's.
            process = self.launch("--set", "data.dataset=idx", "--set", f"data.path={data}",
                                  hosts="host1,host2,host3,nobody.invalid")
            self.assertEqual(process.wait(120), 2, self.said())
        finally:
            in_host(3, "umount", PROGRAM)
        said = self.said()
        for host in ("host1", "host2"):
            self.assertIn(f"{host}: data: ", said)
        self.assertIn("host3: it has Taxon 0.0.0", said)
        self.assertIn("nobody.invalid: ", said)
        self.assertFalse(self.out.exists())

    def test_wrong_words_are_found_here(self):
        for words, expected in ((("--workers", 2), "--slots"), (("--set", "batch.global=x"), "batch.global")):
            process = self.launch(*words)
            self.assertEqual(process.wait(60), 2, self.said())
            self.assertIn(expected, self.said())
        process = self.launch(hosts="localhost,host1")
        self.assertEqual(process.wait(60), 2)
        self.assertIn("on every other host is that host itself", self.said())
        process = self.launch("--set", "mesh.tensor=4", "--set", "mesh.splits=[nosuch=none]", hosts="host1,host2,host3,host0")
        self.assertEqual(process.wait(60), 2)
        self.assertIn("host1: usage: model mlp can't be divided", self.said())
        process = self.launch(hosts="host1,host1")
        self.assertEqual(process.wait(60), 2)
        self.assertIn("host1 is there twice", self.said())

    def test_a_killed_rank_ends_all_and_is_named(self):
        process = self.launch("--set", "length.epochs=2000")
        self.wait_until(lambda: self.steps() > 3, "training")
        os.kill(self.ranks()[2], signal.SIGKILL)
        self.assertEqual(process.wait(60), 75, self.said())
        self.assertIn("[host2] taxon: rank 2 ", self.said())
        self.assertIn("rank 2 was lost", self.said())

    def test_a_rank_that_dies_early_ends_all(self):
        process = self.launch("--set", "length.epochs=2000")
        self.wait_until(lambda: 3 in self.ranks(), "the start of rank 3")
        os.kill(self.ranks()[3], signal.SIGKILL)
        self.assertEqual(process.wait(60), 75, self.said())
        self.assertIn("rank 3", self.said())

    def test_a_rank_that_is_stopped_early_is_not_waited_for(self):
        process = self.launch("--set", "length.epochs=2000")
        self.wait_until(lambda: 0 in self.ranks(), "the start of rank 0")
        late = self.ranks()[0]
        os.kill(late, signal.SIGSTOP)  # as one that reads much data
        try:
            self.assertNotIn("training samples", self.said())
            self.wait_until(lambda: 3 in self.ranks(), "the start of rank 3")
            os.kill(self.ranks()[3], signal.SIGTERM)
            self.wait_until(lambda: set(self.ranks()) <= {0}, "the end of the others", seconds=60)
        finally:
            os.kill(late, signal.SIGCONT)
        self.assertEqual(process.wait(60), 143, self.said())

    def test_the_code_of_who_failed_is_returned(self):
        process = self.launch("--set", "length.epochs=2000")
        self.wait_until(lambda: self.steps() > 3, "training")
        self.out.rename(self.folder / "moved")
        self.assertEqual(process.wait(60), 73, self.said())
        self.assertIn("the output folder has vanished", self.said())

    def test_ctrl_c_ends_all_in_order(self):
        process = self.launch("--set", "length.epochs=2000")
        self.wait_until(lambda: self.steps() > 3, "training")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 143, self.said())
        self.assertTrue(list((self.out / "checkpoints").iterdir()))

    def test_nothing_outlives_a_killed_launcher(self):
        process = self.launch("--set", "length.epochs=2000")
        self.wait_until(lambda: self.steps() > 3, "training")
        launchers = [pid for pid in self.processes() if b"launch" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
        for pid in launchers:
            os.kill(pid, signal.SIGKILL)
        process.wait(60)  # tearDown sees that nothing is left


def why_impossible():
    for program in ("/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen"):
        if not os.path.exists(program):
            return f"there is no {program}: apt-get install openssh-server"
    probe = lab("up", "--name", NAME + "-probe", "--hosts", "1", "--rate", "1gbit")
    lab("down", "--name", NAME + "-probe")
    return probe.stderr.strip() if probe.returncode != 0 else ""


if __name__ == "__main__":
    why = why_impossible()
    if why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
